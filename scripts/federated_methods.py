"""Measures the methods of the federated literature beside ER and CBR, on small parts of datasets.

    python scripts/federated_methods.py RESULTS.jsonl DATASET …    # names, or paths of npz files
    python scripts/federated_methods.py RESULTS.jsonl              # the tables of what is there

Each run is a line of the file. Runs that are there are not repeated, so a script that was stopped
goes on. All runs are very small, for a CPU: two clients, five tasks, twelve mini-batches of ten
samples a task, M = 40, a network with one hidden layer. TARGET's generator is small too.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import ofcl
from ofcl.errors import OfclError

SMALL = {
    "model": "mlp", "clients": 2, "tasks": 5, "limit": 12, "memory": 40, "burn_in": 2, "q": 4,
    "device": "cpu",
}  # fmt: skip
FIRST_ROWS = {"train_head": 3000, "test_head": 600}
SORTED = {"20newsgroups-minilm": {"train_per_class": 150, "test_per_class": 30}}
"""Files whose rows are sorted by class: their first rows would be of a few classes alone."""
OF_METHODS = {"target": {"width": 4, "generator_steps": 20, "synthetic": 10}}
METHODS = ("er", "cbr", "refed", "fedcbdr", "glfc", "target")
SEEDS = (0, 1, 2)


def measure(dataset: str, protocol: str, method: str, seed: int) -> dict:
    """Runs a method once, and returns what is kept of its result.

    Args:
        dataset: The name or the path of the dataset.
        protocol: The protocol.
        method: The method.
        seed: The seed.
    """
    part = SORTED.get(Path(dataset).stem, FIRST_ROWS)
    values = {**SMALL, **part, **OF_METHODS.get(method, {}), "protocol": protocol, "seed": seed}
    began = time.process_time()
    try:
        result = ofcl.run(dataset=dataset, method=method, **values)
    except OfclError as refused:
        return {"refused": str(refused)}
    return {
        "A": result.A, "F": result.F, "global_A": result.global_A, "rounds": result.rounds,
        "sent": result.bytes_sent, "received": result.bytes_received,
        "cpu": time.process_time() - began,
    }  # fmt: skip


def show(lines: list[dict]) -> None:
    """Prints a table of means and standard deviations for each dataset.

    Args:
        lines: The runs.
    """
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        print(f"\n{dataset}\n\n| protocol | method | A | F | server's A | CPU s | runs |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for protocol in ("sound", "strong"):
            for method in METHODS:
                runs = [
                    line for line in lines
                    if (line["dataset"], line["protocol"], line["method"])
                    == (dataset, protocol, method) and "A" in line
                ]  # fmt: skip
                if runs:
                    cells = [_mean(runs, name) for name in ("A", "F", "global_A", "cpu")]
                    print(f"| {protocol} | {method} | {' | '.join(cells)} | {len(runs)} |")


def _mean(runs: list[dict], name: str) -> str:
    """Writes mean ± standard deviation of a number of the runs.

    Args:
        runs: The runs.
        name: The name of the number.
    """
    values = [run[name] for run in runs if run[name] is not None]
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def main(arguments: list[str]) -> None:
    """Runs what is missing, seed by seed, and prints the tables.

    Args:
        arguments: The file of results, and the datasets.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("results", type=Path)
    parser.add_argument("datasets", nargs="*")
    given = parser.parse_args(arguments)
    text = given.results.read_text() if given.results.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    cases = [
        {"dataset": Path(dataset).stem, "protocol": protocol, "method": method, "seed": seed}
        for methods in (METHODS[:-1], METHODS[-1:]) for dataset in given.datasets for seed in SEEDS
        for protocol in ("sound", "strong") for method in methods
    ]  # fmt: skip
    paths = {Path(dataset).stem: dataset for dataset in given.datasets}
    for case in cases:
        if any(case.items() <= line.items() for line in lines):
            continue
        values = {**case, "dataset": paths[case["dataset"]]}
        lines.append({**case, **measure(**values)})
        with given.results.open("a") as file:
            file.write(json.dumps(lines[-1]) + "\n")
    show(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
