"""Forty small real runs: kinds of data, methods, seeds and protocols, two of them unfinished.

The tables come with scikit-learn. All together take a few minutes on one core.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import ofcl

UNFINISHED = 40  # events of a run that is left unfinished
SMALL: dict[str, Any] = {"clients": 2, "memory": 40}


def write_tables(folder: Path) -> dict[str, Path]:
    """Writes tables of scikit-learn as CSV files, and one of them as two watched folders.

    Args:
        folder: The folder.
    """
    from sklearn import datasets

    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name in ("wine", "breast_cancer", "iris"):
        data = getattr(datasets, f"load_{name}")()
        header = ",".join([*data.feature_names, "diagnosis"])
        lines = [
            ",".join([*map(str, x), str(data.target_names[y])])
            for x, y in zip(data.data.tolist(), data.target, strict=True)
        ]
        paths[name] = folder / f"{name}.csv"
        paths[name].write_text("\n".join([header, *lines]) + "\n")
        if name == "breast_cancer":
            for ward in range(2):
                paths[f"ward-{ward}"] = folder / f"ward-{ward}"
                paths[f"ward-{ward}"].mkdir(exist_ok=True)
                file = paths[f"ward-{ward}"] / "1.csv"
                file.write_text("\n".join([header, *lines[ward::2]]) + "\n")
    return paths


def plans(tables: dict[str, Path]) -> list[dict[str, Any]]:
    """Lists the settings of forty runs.

    Args:
        tables: The tables that `write_tables` has written.
    """
    digits = {"dataset": "digits", "limit": 20, **SMALL}
    wine, cancer, iris = (
        {"dataset": str(tables[name]), "label": "diagnosis", **SMALL}
        for name in ("wine", "breast_cancer", "iris")
    )
    images = {"dataset": "fashion-mini", "limit": 4, "width": 8, "model": "convnet", **SMALL}
    streams = tuple(f"watch:{tables[f'ward-{ward}']}" for ward in range(2))
    wards = {"streams": streams, "label": "diagnosis", "idle": 0.1, "window": 50, "memory": 40}
    return [
        *crossed(digits, method=("none", "er", "cbr", "bi"), seed=(0, 1, 2)),
        *crossed(wine, method=("er", "cbr"), seed=(0, 1, 2)),
        *crossed(cancer, method=("er", "bi"), seed=(0, 1, 2)),
        *crossed(images, method=("er", "bi"), seed=(0, 1)),
        *crossed(iris, joint=(False, True), seed=(0, 1)),
        *crossed(wards, method=("er", "cbr")),
        *crossed({**wine, "protocol": "sound"}, method=("er", "cbr"), seed=(0, 1)),
        {**digits, "method": "bi", "seed": 7},
        {**cancer, "method": "er", "seed": 7},
    ]  # the last two are left unfinished


def crossed(values: dict[str, Any], **choices: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Crosses settings with some choices.

    Args:
        values: The settings that all have.
        choices: For each further setting, its values.
    """
    combinations = itertools.product(*choices.values())
    return [{**values, **dict(zip(choices, some, strict=True))} for some in combinations]


def make_real_runs(folder: Path) -> None:
    """Runs all of them; a run that is there already is not run again.

    Args:
        folder: The folder of the runs; the tables are written beside it.
    """
    chosen = plans(write_tables(folder.parent / "tables"))
    for number, values in enumerate(chosen):
        out = folder / f"run-{number:02}"
        if out.exists():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = ofcl.Run(ofcl.make_settings(values), out=out, tell=lambda line: None)
            for n, _ in enumerate(run):
                if number >= len(chosen) - 2 and n == UNFINISHED:
                    break
        print(f"{number + 1} of {len(chosen)}", flush=True)
