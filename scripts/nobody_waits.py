"""Rounds that wait for a slow client against rounds that do not, on any dataset.

    python scripts/nobody_waits.py digits --seeds 0,1,2,3,4 --set memory=100
    python scripts/nobody_waits.py cifar10 --seeds 0,1,2 --set memory=1000 device=cuda

Prints a table: A, F and the server's A (mean ± deviation over seeds), rounds, and the mini-batches
that all clients learn in an hour until the first stream ends, if a mini-batch takes each client so
many seconds as `--speeds` says. Time is simulated: clients that wait go on when the slowest comes.
"""

import argparse
import statistics
import warnings
from collections import Counter

import ofcl
from ofcl.assembly.dealing import Loader
from ofcl.events import Event, Learned, Round
from ofcl.settings.files import parse_override

WAYS = {
    "waiting": {},
    "waiting, closing round at the end": {"closing_round": "end"},
    "buffered, 1": {"rounds": "buffered", "buffer": 1},
    "buffered, 2": {"rounds": "buffered", "buffer": 2},
}
"""The ways by name: their settings."""


def main() -> None:
    """Runs every way with every seed, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--speeds", default="1,3,10", help="seconds of a mini-batch, one a client")
    parser.add_argument("--ways", default=";".join(WAYS), help="names of ways, with semicolons")
    parser.add_argument("--set", nargs="*", default=[], dest="changes")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    speeds = [float(speed) for speed in given.speeds.split(",")]
    changes = dict(parse_override(change) for change in given.changes)
    load = Loader()
    print("| rounds | A | F | server's A | rounds | mini-batches an hour |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for name in given.ways.split(";"):
        buffered = "rounds" in WAYS[name]
        own = {"speeds": speeds} if buffered else {}
        runs = []
        for seed in map(int, given.seeds.split(",")):
            fixed = {"dataset": given.dataset, "clients": len(speeds), "seed": seed}
            made = ofcl.make_settings({**fixed, **changes, **WAYS[name], **own})
            run = ofcl.Run(made, load=load)
            rate = an_hour(list(run), speeds, waiting=not buffered)
            runs.append((run.result(), rate))
        results = [result for result, _ in runs]
        cells = [spread([getattr(r, cell) for r in results]) for cell in ("A", "F", "global_A")]
        rounds = statistics.mean(result.rounds for result in results)
        rate = statistics.mean(rate for _, rate in runs)
        print(f"| {name} | {' | '.join(cells)} | {rounds:.0f} | {rate:.0f} |", flush=True)


def an_hour(events: list[Event], speeds: list[float], *, waiting: bool) -> float:
    """Counts the mini-batches that all clients learn in an hour, until the first stream ends.

    Args:
        events: The events of the run.
        speeds: How many seconds a mini-batch takes each client.
        waiting: Whether clients wait for each other in every round.
    """
    stretches = [Counter[int]()]  # mini-batches of each client, between two rounds
    for event in events:
        if isinstance(event, Learned):
            stretches[-1][event.client] += event.batches
        elif isinstance(event, Round):
            stretches.append(Counter())
    if waiting:
        seconds = sum(max((n * speeds[k] for k, n in s.items()), default=0) for s in stretches)
        return 3600 * sum(s.total() for s in stretches) / seconds
    total = sum(stretches, Counter[int]())
    end = min(n * speeds[k] for k, n in total.items())
    return 3600 * sum(min(n, end // speeds[k]) for k, n in total.items()) / end


def spread(values: list[float]) -> str:
    """Writes mean ± standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} ± {deviation:.1f}"


if __name__ == "__main__":
    main()
