"""Measures the processor time of a round: a server and three parties in this process, no network.

    PYTHONPATH=. python scripts/round_processor_time.py 270       # hidden units: 0.02 M parameters
    PYTHONPATH=. python scripts/round_processor_time.py 14000     # 1.06 M parameters

To compare two versions, run it in turns with the `PYTHONPATH` of each.
"""

import sys
import tempfile
import time
from pathlib import Path

from ofcl.events import Round
from tests.support.federation import InProcess, hosted, members

FIRST = 5  # rounds that are not counted


def main() -> None:
    """Prints milliseconds of processor time a round."""
    settings = {"method": "none", "model": "mlp", "hidden": int(sys.argv[1]), "tasks": 1, "q": 2,
                "burn_in": 0, "batch_size": 8, "steps": 1, "limit": 102, "optimizer": "sgd",
                "min_clients": 3}  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run, _ = hosted(folder, InProcess(members(folder)), settings, out=folder / "run")
        times = [time.process_time() for event in run if isinstance(event, Round)]
    each = 1000 * (times[-1] - times[FIRST - 1]) / (len(times) - FIRST)
    print(f"{each:.1f} ms of processor time a round, over {len(times) - FIRST} rounds")


if __name__ == "__main__":
    main()
