"""Measures accuracy and bytes of secure sums, coded and not: a server and parties in this process.

    PYTHONPATH=. python scripts/masked_bytes.py digits --set memory=100 model=mlp q=2
    PYTHONPATH=. python scripts/masked_bytes.py 20newsgroups-minilm.npz --set memory=60

Three parties share a dataset; every message is packed and unpacked as for a network. Prints a
table: A, F (mean ± deviation over seeds), rounds, and megabytes that all parties have sent and
received.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from ofcl.evaluation.results import Result, summarise
from ofcl.events import Round
from ofcl.federation.party_side.own_data import open_source
from ofcl.settings.files import parse_override
from tests.support.federation import PARTIES, InProcess, hosted, member
from tests.support.secure_federation import identity

WAYS = {
    "plain": {},
    "plain, `int8`": {"compress": "int8"},
    "masked": {"secure_aggregation": True},
    "masked, `int8`": {"secure_aggregation": True, "compress": "int8"},
}
"""The ways by name: their settings."""


def main() -> None:
    """Runs every way with every seed, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--ways", default=";".join(WAYS), help="names of ways, with semicolons")
    parser.add_argument("--set", nargs="*", default=[], dest="changes")
    given = parser.parse_args()
    changes = dict(parse_override(change) for change in given.changes)
    print("| | A | F | rounds | sent, MB | received, MB |\n| --- | --- | --- | --- | --- | --- |")
    for way in given.ways.split(";"):
        values = {"closing_round": "end", "min_clients": 3, **changes, **WAYS[way]}
        found = [one_run(given.dataset, {**values, "seed": int(s)}) for s in given.seeds.split(",")]
        cells = [spread([getattr(result, name) for result in found]) for name in ("A", "F")]
        sent, received = (statistics.mean(getattr(r, name) for r in found) / 1e6
                          for name in ("bytes_sent", "bytes_received"))  # fmt: skip
        rounds = statistics.mean(result.rounds for result in found)
        line = [way, *cells, f"{rounds:.0f}", f"{sent:.2f}", f"{received:.2f}"]
        print(f"| {' | '.join(line)} |", flush=True)


def one_run(dataset: str, values: dict[str, object]) -> Result:
    """Makes one run of three parties, and gives its result."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parties = {}
        for number in range(len(PARTIES)):
            source = open_source({"dataset": dataset}, True, lambda _: None)
            parties[number] = member(folder, number, source, identity=identity(number))
        run, _ = hosted(folder, InProcess(parties), values)
        events = list(run)
        assert any(isinstance(event, Round) for event in events)
        tasks = run.settings.tasks
        return summarise(events, clients=len(PARTIES), tasks=tasks, seconds=0.0)


def spread(values: list[float]) -> str:
    """Writes mean ± standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} ± {deviation:.1f}"


if __name__ == "__main__":
    main()
