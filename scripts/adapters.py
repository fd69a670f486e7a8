"""Measures how a pretrained network is best tuned: what each way sends, and what it learns.

    python scripts/adapters.py                              # CIFAR-10, 5 clients, 5 tasks, M = 200
    python scripts/adapters.py --dataset fashion-mini --side 32 --clients 2 --memory 100 \
        --train-per-class 60 --test-per-class 25 --set validation=0.1 --set replay_ratio=1.0

Prints a line for each way and seed as soon as it is there, and writes it to `--out` as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import ofcl


def measure(values: dict[str, Any]) -> dict[str, Any]:
    """Runs one setting, and returns its figures."""
    began = time.perf_counter()
    found = ofcl.run(**values).to_json()
    wanted = ("A", "F", "global_A", "validation_A", "rounds", "bytes_sent")
    figures = {name: found[name] for name in wanted}
    sent = found["bytes_sent"] / max(found["rounds"], 1) / values["clients"]
    return {**figures, "bytes_a_client_and_round": sent, "seconds": time.perf_counter() - began}


def main() -> None:
    """Measures all ways and seeds, within the time that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--tunes", default="head,lora,last:1,all")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--side", type=int, default=None, help="default: the network's own")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--memory", type=int, default=200)
    parser.add_argument("--train-per-class", type=int, default=None)
    parser.add_argument("--test-per-class", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=300, help="no run is begun after these")
    parser.add_argument("--set", action="append", default=[], help="more settings, NAME=VALUE")
    parser.add_argument("--out", default="adapters.jsonl")
    asked = parser.parse_args()
    began = time.perf_counter()
    more = {name: _value(text) for name, _, text in (item.partition("=") for item in asked.set)}
    for seed in map(int, asked.seeds.split(",")):
        for tune in asked.tunes.split(","):
            if time.perf_counter() - began > asked.seconds:
                print(f"out of time before {tune}, seed {seed}")
                return
            values = {
                "dataset": asked.dataset, "model": asked.model, "tune": tune, "seed": seed,
                "backbone_side": asked.side, "clients": asked.clients, "tasks": asked.tasks,
                "memory": asked.memory, "train_per_class": asked.train_per_class,
                "test_per_class": asked.test_per_class, "method": "cbr", **more,
            }  # fmt: skip
            found = {"tune": tune, "seed": seed, **measure(values)}
            line = json.dumps(found)
            print(line, flush=True)
            with open(asked.out, "a") as file:
                file.write(line + "\n")


def _value(text: str) -> Any:
    """Reads a number, true or false; anything else is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
