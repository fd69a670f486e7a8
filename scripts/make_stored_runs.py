"""Makes the files in `tests/stored`: small runs of an earlier version, finished and half done.

    python scripts/make_stored_runs.py FOLDER

The stored runs were made by version 0.1.0, as of the commit 86e8e36, with the Python, PyTorch
and NumPy that each `settings.toml` names under `made_with`. `tests/storage/test_stored_runs.py`
lets the present version read, resume and repeat these runs, and compares. So a test fails if a
later version cannot read a run directory, or computes something else. Do not make them again with a
later version, unless results are meant to change: the tests would compare that version with itself.

Only public names of `ofcl` are used here, so that this file runs with an earlier version too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import ofcl

DIGITS = {
    "dataset": "digits", "clients": 2, "tasks": 2, "memory": 20, "limit": 6, "burn_in": 1, "q": 2,
    "checkpoint_every": 3,
}  # fmt: skip
MLP = {**DIGITS, "model": "mlp", "hidden": 8}
STREAM = {
    "clients": 2, "method": "bi", "memory": 12, "hidden": 4, "batch_size": 5, "burn_in": 2, "q": 2,
    "checkpoint_every": 3,
}  # fmt: skip

HALF_DONE: dict[str, tuple[dict[str, Any], int]] = {
    "bi": ({**MLP, "method": "bi", "protocol": "sound"}, 18),
    "bi-published": (
        {**MLP, "method": "bi", "protocol": "published", "aggregation": "weighted"},
        18,
    ),
    "fedprox-private": (
        {**MLP, "method": "er", "aggregation": "fedprox", "dp_clip": 1.0, "dp_noise": 0.5},
        18,
    ),
    "images": ({**DIGITS, "width": 1, "method": "cbr", "limit": 4, "steps": 2}, 13),
    "mfcl": ({**DIGITS, "width": 1, "method": "mfcl", "limit": 4, "generator_steps": 2}, 15),
}
"""Runs that are left half done: their settings, and after how many events they are left."""

STREAMS_EVENTS = 26  # events after which the run with streams from Python is left
WATCHED_EVENTS = 26  # events after which the run with watched folders is left
TABLES = "tables"  # folder of the watched folders
ANYWHERE = "/stored"  # stands in settings.toml for the folder in which the runs were made

FINISHED = {
    f"{method}-{seed}": {**MLP, "hidden": 4, "memory": 10, "method": method, "seed": seed}
    for method in ("bi", "er")
    for seed in (0, 1)
}
"""Finished runs, two seeds of two methods, by the names of their directories."""


def repeated() -> dict[str, dict[str, Any]]:
    """Returns the settings of the runs in `results.json`, by protocol/method/network."""
    images = {**DIGITS, "width": 2, "limit": 4, "generator_steps": 2, "consolidation": 2}
    runs = {}
    for protocol in ("sound", "published"):
        for method in ("none", "er", "cbr", "bi", "lc"):
            runs[f"{protocol}/{method}/mlp"] = {**MLP, "limit": 10}
        for method in ("er", "bi"):
            runs[f"{protocol}/{method}/images"] = images
    for method in ("fedcil", "mfcl"):
        runs[f"sound/{method}/images"] = images
    for name, settings in runs.items():
        protocol, method, _ = name.split("/")
        runs[name] = {**settings, "protocol": protocol, "method": method, "seed": 3}
    return runs


def samples(client: int) -> Iterator[tuple[np.ndarray, str, str]]:
    """Yields sixty samples of each of two tasks of a client, as (x, label, task).

    Args:
        client: The client's number, which is the seed.
    """
    draw = np.random.default_rng(client)
    for task, labels in (("first", "ab"), ("second", "ca")):
        for n in range(60):
            label = labels[n % 2]
            x = draw.normal(0, 0.5, size=5).round(3).astype(np.float32)
            x["abc".index(label)] += 2
            yield x, label, task


def stream(client: int) -> Callable[[int], list[tuple[np.ndarray, str, str]]]:
    """Returns a client's stream: a function from a number of samples to skip to the others.

    Args:
        client: The client's number.
    """
    return lambda start: list(samples(client))[start:]


def streams_of_python() -> dict[str, Any]:
    """Returns the streams of two clients, and test samples, as arguments of `ofcl.resume`."""
    test = [(x, label) for x, label, _ in samples(2)]
    return {"streams": [stream(0), stream(1)], "test": test}


def write_tables(folder: Path) -> None:
    """Writes the samples of two clients, three CSV files each, into folders to be watched.

    Args:
        folder: The folder in which each client gets a folder, named by its number.
    """
    for client in range(2):
        rows = [",".join([*(f"{value:g}" for value in x), label, task])
                for x, label, task in samples(client)]  # fmt: skip
        (folder / str(client)).mkdir(parents=True)
        for part in range(3):
            lines = ["a,b,c,d,e,label,task", *rows[40 * part : 40 * (part + 1)]]
            (folder / str(client) / f"{part}.csv").write_text("\n".join(lines) + "\n")


def watching(folder: Path) -> dict[str, Any]:
    """Returns the settings of a run that watches the folders that `write_tables` makes.

    Args:
        folder: The folder that `write_tables` was given.
    """
    streams = [f"watch:{folder / str(client)}" for client in range(2)]
    return {**STREAM, "streams": streams, "label": "label", "task": "task", "window": 20,
            "idle": 0.2}  # fmt: skip


def leave_half_done(out: Path, settings: dict[str, Any], events: int, **data: Any) -> None:
    """Leaves a run half done, and writes the result of a resumed copy as `expected.json`.

    Args:
        out: The run directory to be made.
        settings: The settings of the run.
        events: The number of events after which the run is left.
        **data: Streams and test samples, for `ofcl.Run` and `ofcl.resume`.
    """
    run = ofcl.Run(ofcl.make_settings(settings), out=out, **data)
    for n, _ in enumerate(run, start=1):
        if n == events:
            break
    else:
        raise SystemExit(f"{out.name} has ended before {events} events")
    del run
    copy = out.parent / "copy"
    shutil.copytree(out, copy)
    expected = ofcl.resume(copy, **data).to_json()
    shutil.rmtree(copy)
    del expected["seconds"]
    (out / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    tidy(out)


def tidy(out: Path) -> None:
    """Deletes the lock, all checkpoints but the last, and what says where the run was made.

    Args:
        out: The run directory.
    """
    (out / "lock").unlink()
    for older in sorted((out / "checkpoint").iterdir())[:-1]:
        shutil.rmtree(older)
    file = out / "settings.toml"
    lines = file.read_text().replace(str(out.parent.resolve()), ANYWHERE).splitlines()
    lines = ['platform = "Linux"' if line.startswith("platform = ") else line for line in lines]
    file.write_text("\n".join(lines) + "\n")


def make_finished(folder: Path) -> None:
    """Makes finished runs, and stores what `compare` and `memory list` print about them.

    Args:
        folder: The folder for the run directories and for the printed texts.
    """
    for name, settings in FINISHED.items():
        ofcl.run(out=folder / name, **settings)
    (folder / "compare.json").write_text(said("compare", "--json", folder))
    (folder / "memory.txt").write_text(said("memory", "list", folder / "bi-0"))
    for name in FINISHED:
        tidy(folder / name)
        if name != "bi-0":  # one is enough to read a memory from
            shutil.rmtree(folder / name / "checkpoint")


def said(*arguments: str | Path) -> str:
    """Runs a command of `ofcl`, and returns what it prints.

    Args:
        arguments: The words of the command line after `ofcl`.
    """
    command = [sys.executable, "-m", "ofcl.cli.main", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout


def rounding() -> str:
    """Computes a digest that differs between processors that round differently.

    PyTorch alone, without `ofcl`, trains a network with convolutions and BatchNorm for a few steps.
    Such networks magnify a difference in the last bit of a number, so that runs with images differ
    visibly between such processors.
    """
    draw = torch.Generator().manual_seed(0)
    shapes = [(20, 1, 8, 8), (4, 1, 3, 3), (8, 4, 3, 3), (16, 512), (10, 16)]
    x, *weights = (torch.randn(shape, generator=draw) / shape[-1] for shape in shapes)
    x, y = x.to(memory_format=torch.channels_last), torch.arange(20) % 10
    for _ in range(5):
        weights = [weight.detach().requires_grad_() for weight in weights]
        *kernels, hidden, head = weights
        features = x
        for kernel in kernels:
            features = F.conv2d(features, kernel, padding=1)
            features = F.batch_norm(features, None, None, training=True).relu()
        logits = (features.flatten(1) @ hidden.T).relu() @ head.T
        gradients = torch.autograd.grad(F.cross_entropy(logits, y), weights)
        weights = [w - 0.1 * gradient for w, gradient in zip(weights, gradients, strict=True)]
    numbers = torch.cat([weight.detach().flatten() for weight in weights]).numpy()
    return hashlib.sha256(numbers.tobytes()).hexdigest()


def main() -> None:
    """Makes everything in the folder that the command line names."""
    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    root.mkdir()
    for name, (settings, events) in HALF_DONE.items():
        leave_half_done(root / name, settings, events)
    leave_half_done(root / "streams", STREAM, STREAMS_EVENTS, **streams_of_python())
    write_tables(root / TABLES)
    leave_half_done(root / "watched", watching(root / TABLES), WATCHED_EVENTS)
    make_finished(root / "finished")
    kept = ("A", "F", "global_A", "anytime_loss", "rounds", "bytes_sent")
    results = {}
    for name, settings in repeated().items():
        result = ofcl.run(**settings).to_json()
        results[name] = {key: result[key] for key in kept}
    (root / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (root / "rounding.txt").write_text(rounding() + "\n")


if __name__ == "__main__":
    main()
