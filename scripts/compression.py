"""Accuracy against bytes: the same run with each way of coding.

    python scripts/compression.py DATASET [--seeds 0,1,2] [--set memory=60 …] [--codes none,int8]

Prints a table: A, F and the server's A (mean ± deviation over seeds), megabytes that all clients
have sent and received, and how many times fewer these are.
"""

import argparse
import statistics

import ofcl
from ofcl.settings.files import parse_override

CODES = "none,fp16,int8,int4,topk:0.2,topk:0.1,topk:0.05"


def main() -> None:
    """Runs every way of coding with every seed, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--codes", default=CODES)
    parser.add_argument("--set", nargs="*", default=[], dest="changes")
    given = parser.parse_args()
    changes = dict(parse_override(change) for change in given.changes)
    print("| compress | A | F | server's A | sent, MB | received, MB | fewer |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    whole = 0
    for code in given.codes.split(","):
        results = [
            ofcl.run(given.dataset, compress=code, seed=int(seed), **changes)
            for seed in given.seeds.split(",")
        ]
        total = results[0].bytes_sent + results[0].bytes_received
        whole = whole or total
        cells = [spread([getattr(r, name) for r in results]) for name in ("A", "F", "global_A")]
        sent, received = (n / 1e6 for n in (results[0].bytes_sent, results[0].bytes_received))
        line = [f"`{code}`", *cells, f"{sent:.1f}", f"{received:.1f}", f"{whole / total:.1f} ×"]
        print(f"| {' | '.join(line)} |", flush=True)


def spread(values: list[float]) -> str:
    """Writes mean ± standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} ± {deviation:.1f}"


if __name__ == "__main__":
    main()
