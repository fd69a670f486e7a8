"""Makes a large CSV file, lets `ofcl run` learn from it, and prints the largest memory in use.

    python scripts/large_table.py FOLDER [--gigabytes 5] [--limit 200]

The file has 40 columns of numbers (one with gaps), a category with gaps, a date and a truth value,
and four classes. It is made in FOLDER, and deleted at the end. `--limit` shortens learning, not
reading and not testing.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROWS = 20_000  # that are drawn once; the file repeats them with other first columns
NUMBERS = 40


def make_file(path: Path, size: float) -> int:
    """Writes a CSV file of at least a size in bytes; returns the number of its rows."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 4, ROWS)
    x = draw.normal(size=(ROWS, NUMBERS)) + y[:, None] * draw.normal(size=NUMBERS)
    names = [f"n{k}" for k in range(NUMBERS)]
    rest = []
    for row in range(ROWS):
        numbers = [f"{value:.5f}" for value in x[row]]
        numbers[0] = "" if row % 10 == 0 else numbers[0]
        ward = ["A", "B", "C", ""][draw.integers(4)]
        day = f"2024-{draw.integers(1, 13):02}-{draw.integers(1, 29):02}"
        rest.append(",".join([*numbers, ward, day, "yes" if row % 3 else "no", f"c{y[row]}"]))
    written = rows = 0
    with path.open("w") as file:
        file.write(",".join(["stay", *names, "ward", "seen", "smoker", "y"]) + "\n")
        while written < size:
            stay = draw.gamma(2.0, 3.0, ROWS)
            text = "".join(f"{a:.4f},{b}\n" for a, b in zip(stay, rest, strict=True))
            file.write(text)
            written, rows = written + len(text), rows + ROWS
    return rows


def main() -> None:
    """Makes the file, runs, and prints size, seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--limit", type=int, default=200)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "large.csv"
    try:
        rows = make_file(path, given.gigabytes * 1e9)
        print(f"{path.stat().st_size / 1e9:.2f} GB, {rows:,} rows", flush=True)
        program = str(Path(sys.executable).with_name("ofcl"))
        command = [program, "run", "--dataset", str(path), "--label", "y",
                   "--limit", str(given.limit), "--data-root", str(given.folder),
                   "--out", str(given.folder / "run")]  # fmt: skip
        begin = time.monotonic()
        subprocess.run(command, check=True)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        print(f"ofcl run: {time.monotonic() - begin:.0f} s, at most {most:.2f} GB of memory")
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
