"""Checks the field's methods against what their authors claim, on small data, with the same rounds.

    python scripts/field_sanity.py RESULTS.jsonl GROUP DATASET …    # a name, or an npz file's path
    python scripts/field_sanity.py RESULTS.jsonl                    # the table of what is there

GROUP is one of

    large     ER, iCaRL and SCR with M = 1000; SCR without augmentation
    small     ER and DER++ with M = 200
    weights   LwF and EWC with four weights each, to be chosen by `val. A`
    target    TARGET with three weights, to be chosen by `val. A`; images alone, a small generator

All runs: `sound`, two clients, five tasks, a network with one hidden layer, and a closing round at
the end of each task, for all methods alike. Each is a line of the file, and is not repeated.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import torch

import ofcl

BASE = {"model": "mlp", "clients": 2, "tasks": 5, "device": "cpu", "protocol": "sound",
        "closing_round": "task"}  # fmt: skip
PARTS = {
    "fashion-mini": {"train_head": 6000, "test_head": 1000, "limit": 40},
    "digits": {"validation": 0.1},
}
SORTED = {"train_per_class": 100, "test_per_class": 30}  # of a file whose rows are sorted by class
TARGET = {"limit": 12, "burn_in": 2, "q": 4, "train_head": 3000, "test_head": 600, "width": 4,
          "generator_steps": 20, "synthetic": 10, "validation": 0.2}  # fmt: skip
GROUPS: dict[str, tuple[int, list[dict]]] = {
    "large": (3, [*({"method": m, "memory": 1000} for m in ("er", "icarl", "scr")),
                  {"method": "scr", "memory": 1000, "augment": "none"}]),
    "small": (3, [{"method": m, "memory": 200} for m in ("er", "der")]),
    "weights": (2, [*({"method": "lwf", "lwf_weight": w} for w in (0.3, 1.0, 3.0, 10.0)),
                    *({"method": "ewc", "ewc_weight": w} for w in (1.0, 10.0, 100.0, 1000.0))]),
    "target": (1, [{"method": "target", "target_kd": w, **TARGET} for w in (1.0, 5.0, 25.0)]),
}  # fmt: skip
"""By name: the number of seeds, and the settings of the runs."""


def measure(dataset: str, values: dict, seed: int) -> dict:
    """Makes a run, and returns what is kept of its result.

    Args:
        dataset: The name or the path of the dataset.
        values: The settings of the group.
        seed: The seed.
    """
    began = time.process_time()
    part = PARTS.get(dataset, SORTED)
    result = ofcl.run(**{**BASE, **part, "dataset": dataset, "seed": seed, **values})
    return {"A": result.A, "F": result.F, "validation_A": result.validation_A,
            "cpu": time.process_time() - began}  # fmt: skip


def show(lines: list[dict]) -> None:
    """Prints means and standard deviations over the seeds.

    Args:
        lines: The runs.
    """
    print("| data | settings | A ↑ | F ↓ | val. A ↑ | CPU s | seeds |\n" + "| --- " * 7 + "|")
    kinds = dict.fromkeys((line["dataset"], line["settings"]) for line in lines)
    for dataset, settings in kinds:
        runs = [r for r in lines if (r["dataset"], r["settings"]) == (dataset, settings)]
        columns = [[run[name] for run in runs] for name in ("A", "F", "validation_A", "cpu")]
        cells = [f"{statistics.mean(c):.1f}" + spread(c) for c in columns]
        named = {k: v for k, v in json.loads(settings).items() if TARGET.get(k) != v}
        told = " ".join(f"{name}={value}" for name, value in named.items())
        print(f"| {dataset} | {told} | {' | '.join(cells)} | {len(runs)} |")


def spread(values: list[float]) -> str:
    """Writes the standard deviation of some numbers, if there are several."""
    return f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""


def main() -> None:
    """Makes the runs of a group that are missing, and shows the table of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("group", nargs="?", choices=GROUPS)
    parser.add_argument("datasets", nargs="*")
    given = parser.parse_args()
    torch.set_num_threads(1)
    text = given.results.read_text() if given.results.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    seeds, runs = GROUPS[given.group] if given.group else (0, [])
    for dataset in given.datasets:
        for seed in range(seeds):
            for values in runs:
                key = {"dataset": Path(dataset).name, "settings": json.dumps(values), "seed": seed}
                if not any(key.items() <= line.items() for line in lines):
                    lines.append({**key, **measure(dataset, values, seed)})
                    with given.results.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
                    print(lines[-1], file=sys.stderr)
    show(lines)


if __name__ == "__main__":
    main()
