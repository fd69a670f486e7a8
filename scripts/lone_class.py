"""Learns tables in which a class comes alone in its task, with other losses than `strong` chooses.

    python scripts/lone_class.py FOLDER

FOLDER gets the tables: of data that scikit-learn ships, and made-up ones with overlapping classes.
Each is learned with the asymmetric loss and cross-entropy, and with much and little distillation.
The lines are validation A, A and F, as means over seeds 0 to 2. They are where the choice of
`ofcl/assembly/fitting.py` for such tasks comes from.
"""

import csv
import statistics
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification

import ofcl

WAYS = {"ace, distil 3": ("ace", 3.0), "ace, distil 1": ("ace", 1.0), "ce, distil 1": ("ce", 1.0)}


def write(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    """Writes samples as CSV.

    Args:
        path: The file.
        x: The numbers (n, columns).
        y: The class of each row.
    """
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"c{place}" for place in range(x.shape[1])), "label"])
        rows = zip(x, y, strict=True)
        writer.writerows([*(f"{value:.5g}" for value in row), f"k{label}"] for row, label in rows)


def made_up(classes: int, rows: int, **how: float) -> tuple[np.ndarray, np.ndarray]:
    """Makes a table of overlapping classes.

    Args:
        classes: The number of classes.
        rows: The number of rows.
        how: Other options of scikit-learn's `make_classification`.
    """
    options = {"class_sep": 0.9, "n_clusters_per_class": 1, "flip_y": 0.03, **how}
    x, y = make_classification(
        rows, 14, n_informative=8, n_classes=classes, random_state=classes, **options
    )
    return x, y


def tables() -> dict[str, tuple[tuple[np.ndarray, np.ndarray], dict[str, int]]]:
    """Returns the samples of each table, and the settings of its runs."""
    x, y = load_digits(return_X_y=True)

    def digits(classes: int) -> tuple[np.ndarray, np.ndarray]:
        return x[y < classes], y[y < classes]

    few, five = {"clients": 2, "memory": 40}, {"clients": 5, "memory": 200}
    three = {"clients": 3, "memory": 60}
    return {
        "tumours, M = 20": (load_breast_cancer(return_X_y=True), {**five, "memory": 20}),
        "digits, odd or even": ((x, y % 2), five),
        "made up, 2 classes": (made_up(2, 6000, class_sep=0.5, flip_y=0.1), five),
        "made up, 3 classes": (made_up(3, 4000, class_sep=0.7), five),
        "digits 0 to 4, 3 tasks": (digits(5), {**few, "tasks": 3}),
        "made up, 5 classes, 3 tasks": (made_up(5, 3000), {**three, "tasks": 3}),
        "digits 0 to 6, 4 tasks": (digits(7), {**few, "tasks": 4}),
        "made up, 7 classes, 5 tasks": (made_up(7, 4200), {**three, "tasks": 5}),
        "made up, 7 classes, 7 tasks": (made_up(7, 4200), {**three, "tasks": 7}),
        "digits, 10 tasks": (digits(10), {**few, "memory": 60, "tasks": 10}),
        "made up, 8 classes, 4 tasks": (made_up(8, 4800), {**three, "tasks": 4}),
    }  # in the last, no class is alone


def main(folder: str) -> None:
    """Makes and learns the tables, and prints a line for each of them and each way.

    Args:
        folder: The folder of the tables.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, (samples, values) in tables().items():
        path = Path(folder) / "table.csv"
        write(path, *samples)
        for way, (loss, distil) in WAYS.items():
            found = [
                ofcl.run(str(path), label="label", seed=seed, loss=loss, distil=distil, **values)
                for seed in range(3)
            ]
            numbers = (
                statistics.mean(getattr(result, what) or 0.0 for result in found)
                for what in ("validation_A", "A", "F")
            )
            print(f"{name} | {way} | {' | '.join(f'{n:.1f}' for n in numbers)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
