"""Measures the seconds of a round on stock NVFlare with hardly anything to learn, on this machine.

    python -m venv ENV && ENV/bin/pip install -c constraints.txt torch '.[nvflare]' psutil
    PYTHONPATH=. ENV/bin/python scripts/nvflare_rounds.py

A server and three sites with certificates, each a process, and one more for the job. A party learns
one mini-batch of one sample in each round, as in scripts/round_overhead.py.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
from pathlib import Path

from ofcl.storage.run_directory import RunDirectory
from tests.support.environments import Environment
from tests.support.stock_nvflare import SERVER, StockNVFlare

SITES = ("hospital-a", "hospital-b", "hospital-c")
HIDDEN = (270, 14_000)  # 20 thousand parameters, and a million


def settings(hidden: int, rounds: int) -> dict[str, object]:
    """Returns settings with which a party learns one sample in each round.

    Args:
        hidden: The hidden units of the network.
        rounds: The number of rounds.
    """
    return {"method": "none", "model": "mlp", "hidden": hidden, "tasks": 1, "q": 1, "burn_in": 0,
            "batch_size": 1, "steps": 1, "limit": rounds, "optimizer": "sgd",
            "min_clients": len(SITES)}  # fmt: skip


def main() -> None:
    """Measures two networks, and prints a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    environment = Environment((Path(sys.executable),), (), {**os.environ, "OMP_NUM_THREADS": "1"})
    with tempfile.TemporaryDirectory() as name:
        nvflare = StockNVFlare(Path(name), environment, SITES)
        for site in SITES:  # a round of one sample is refused by the usual policy
            folder = nvflare.kits / site / "ofcl"
            folder.mkdir()
            (folder / "policy.toml").write_text("min_samples = 1\n")
        try:
            nvflare.start(SERVER, *SITES)
            print("| parties | parameters | rounds | s a round (median) | most |")
            print("|---|---|---|---|---|")
            for hidden in HIDDEN:
                out = Path(name) / str(hidden) / "run"
                out.parent.mkdir()
                nvflare.submit(nvflare.job(out, settings(hidden, given.rounds)))
                if nvflare.finish("submit") != 0:
                    sys.exit(nvflare.told())
                events = RunDirectory(out).events()
                times = [e["seconds"] for e in events if e["event"] == "round"]
                seconds = [after - before for before, after in itertools.pairwise(times[1:])]
                middle, most = statistics.median(seconds), max(seconds)
                size = f"{76 * hidden / 1e6:.2f} M"
                print(f"| {len(SITES)} | {size} | {len(seconds)} | {middle:.2f} | {most:.2f} |")
        finally:
            nvflare.stop()


if __name__ == "__main__":
    main()
