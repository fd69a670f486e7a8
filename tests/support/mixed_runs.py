"""Forty runs as they lie about after some weeks: kinds, datasets, methods, seeds, unfinished ones.

Six of them are run, on small data; the others are copies with other settings and numbers, so that
they are there in seconds. Nothing can be learned from their numbers.
"""

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

import ofcl
from ofcl import Run, make_settings
from ofcl.data.loading import load_dataset
from ofcl.evaluation import metrics
from ofcl.settings.files import to_toml
from ofcl.testing.data import TINY, make_blobs

KEPT = {"bi": 0.9, "cbr": 0.85, "er": 0.8, "lc": 0.75, "none": 0.2}
"""The share of each task's accuracy that copies of a method keep."""

IMAGES = {**TINY, "method": "bi", "model": "mlp", "hidden": 64, "steps": 2, "limit": 8,
          "burn_in": 2, "tasks": 5, "memory": 30, "clients": 3, "batch_size": 10}  # fmt: skip


def make_runs(folder, data):
    """Makes the forty runs in `folder`, of tables that are written to `data`."""
    folder, data = Path(folder), Path(data)
    data.mkdir(parents=True, exist_ok=True)
    _run_six(folder, data)
    for method in ("er", "cbr", "none"):
        _copies(folder, "fashion-bi", f"fashion-{method}", method=method)
    _copies(folder, "fashion-bi", "fashion-bi")
    _copies(folder, "fashion-bi", "fashion-bi-large", seeds=(0, 1), memory=500)
    _copies(folder, "fashion-bi", "fashion-er-joint", seeds=(0,), method="er", joint=True)
    _copies(folder, "digits-bi", "digits-bi", seeds=(0, 1))
    _copies(folder, "digits-bi", "digits-er", seeds=(0, 1), method="er")
    _copies(folder, "digits-bi", "digits-uneven", seeds=(0, 1), split="dirichlet", alpha=0.1)
    _copies(folder, "heart-er", "heart-er", seeds=(0, 1))
    _copies(folder, "heart-er", "heart-bi", seeds=(0, 1), method="bi", memory=24)
    _copies(folder, "heart-er", "heart-cbr", seeds=(0, 1, 2), method="cbr", blurry=0.25)
    _copies(folder, "letters-cbr", "letters-cbr", seeds=(0, 1))
    _copies(folder, "letters-cbr", "letters-er", seeds=(0, 1), method="er")
    _copies(folder, "blobs-er", "blobs-er", seeds=(0, 1))
    _copies(folder, "blobs-er", "blobs-lc", seeds=(0, 1), method="lc", keep="top")
    _copies(folder, "stream-bi", "stream-bi", seeds=(0,))
    _copies(folder, "stream-bi", "stream-er", seeds=(0,), method="er")
    wards = [f"watch:{data / 'wards' / name}" for name in ("north", "south")]
    _copies(folder, "stream-bi", "wards-bi", seeds=(0, 1), streams=wards)
    for name in ("fashion-bi", "digits-bi", "heart-er", "letters-cbr", "blobs-er"):
        _change_result(folder / f"{name}-seed0", 0, {"method": name.split("-")[1]})
    _unfinished(folder)


def _run_six(folder, data):
    """Runs one experiment for each dataset."""
    for name, step in (("fashion-mini", 7), ("digits", 3)):
        whole = load_dataset(name)
        some = replace(whole, x_test=whole.x_test[::step], y_test=whole.y_test[::step])
        made = make_settings({**IMAGES, "dataset": name})
        for _ in Run(made, some, folder / f"{name.split('-')[0]}-bi-seed0"):
            pass
    draw = np.random.default_rng(0)
    _write_table(data / "heart.csv", draw)
    _write_letters(data / "letters.csv", draw)
    table = {**TINY, "label": "diagnosis", "dataset": str(data / "heart.csv"), "method": "er"}
    ofcl.run(out=folder / "heart-er-seed0", **table)
    with mock.patch("ofcl.data.files.embeddings.load_encoder", return_value=_encode):
        texts = {"dataset": str(data / "letters.csv"), "text": "letter", "label": "about",
                 "embedder": "minilm", "data_root": str(data / "root"),
                 "method": "cbr"}  # fmt: skip
        ofcl.run(out=folder / "letters-cbr-seed0", **{**TINY, **texts})
    ofcl.run(make_blobs(), out=folder / "blobs-er-seed0", **{**TINY, "method": "er"})
    streams = [_readings(np.random.default_rng(seed)) for seed in (1, 2)]
    ofcl.run(streams=streams, out=folder / "stream-bi-seed0", method="bi", memory=12, burn_in=1)


def _write_table(path, draw):
    """Writes a table of six diagnoses that differ in three measures."""
    rows = ["age,pressure,sugar,diagnosis"]
    for n in range(300):
        age, pressure, sugar = draw.normal([50 + 6 * (n % 6), 120 + 9 * (n % 3), 5 + n % 2], 3)
        rows.append(f"{age:.1f},{pressure:.1f},{sugar:.2f},diagnosis {'ABCDEF'[n % 6]}")
    path.write_text("\n".join(rows) + "\n")


def _write_letters(path, draw):
    """Writes letters about six things."""
    things = ("a lost card", "a loan", "a bill", "an account", "a transfer", "a password")
    rows = ["letter,about"]
    for n in range(300):
        thing = things[n % 6]
        rows.append(f"Letter {n}: I am writing about {thing} of mine,{thing}")
    path.write_text("\n".join(rows) + "\n")


def _encode(texts):
    """Embeds texts by the letters that they have: enough to tell six things apart."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    counts = [[text.lower().count(letter) for letter in letters] for text in texts]
    return np.array(counts, np.float32) / 5


def _readings(draw):
    """Yields readings of a sensor: calm, then a storm."""
    for n in range(160):
        yield draw.normal(2 * (n // 80), 1, size=4), ("calm", "storm")[n // 80]


def _copies(folder, source, name, seeds=(0, 1, 2), **changes):
    """Makes a copy of a run for each seed, with other settings and other numbers."""
    for seed in seeds:
        out = folder / f"{name}-seed{seed}"
        if not out.exists():
            shutil.copytree(folder / f"{source}-seed0", out)
            change_settings(out, seed=seed, **changes)
            _change_result(out, seed, changes)


def change_settings(run, **changes):
    """Rewrites settings of a run directory."""
    settings = tomllib.loads((run / "settings.toml").read_text())
    (run / "settings.toml").write_text(to_toml({**settings, **changes}))


def _change_result(run, seed, changes):
    """Gives a run numbers that fit its method, a little different for each seed."""
    path = run / "result.json"
    result = json.loads(path.read_text())
    draw = np.random.default_rng([seed, *str(sorted(changes.items())).encode()])
    kept = KEPT[changes.get("method", "bi")] + draw.normal(0, 0.02)
    matrices = [[[_vary(value, row, column, kept, draw) for column, value in enumerate(cells)]
                 for row, cells in enumerate(matrix)]
                for matrix in [*result["accuracy"], result["global_accuracy"]]]  # fmt: skip
    if changes.get("joint"):
        matrices = [[[90 + draw.normal() for _ in m[-1]]] for m in matrices]
    *result["accuracy"], result["global_accuracy"] = matrices
    ends = [[measure(metrics.to_its_end(m)) for m in matrices]
            for measure in (metrics.last_accuracy, metrics.forgetting)]  # fmt: skip
    for name, values in zip("AF", ends, strict=True):
        result[name], result[f"global_{name}"] = metrics.mean(values[:-1]), values[-1]
    path.write_text(json.dumps(result))


def _vary(value, row, column, kept, draw):
    """Varies an accuracy: less is left of earlier tasks."""
    if value is None:
        return None
    known = 90 if row == column else 90 * kept
    return float(np.clip(known + value / 20 + draw.normal(0, 2), 0, 100))


def _unfinished(folder):
    """Breaks off two of the runs: one after some tasks, one before the first."""
    for name, lines in (("digits-er-seed1", 60), ("heart-cbr-seed1", 0)):
        run = folder / name
        (run / "result.json").unlink()
        events = (run / "events.jsonl").read_text().splitlines(keepends=True)
        (run / "events.jsonl").write_text("".join(events[:lines]))
