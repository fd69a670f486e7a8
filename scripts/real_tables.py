"""Learns real tables with categories, gaps and dates online, beside a batch logistic regression.

    python scripts/real_tables.py FOLDER

FOLDER gets three tables, made of data that scikit-learn ships and spoilt as files of hospitals are:
`tumours.csv` (breast cancer: two classes; decimal commas, gaps, a category and dates), `wines.csv`
(three classes; categories, gaps) and `digits.csv` (ten classes; gaps, a truth value). For each, the
script prints A of `ofcl run` (class-incremental, each sample seen once) over seeds 0 to 4, and the
accuracy of scikit-learn's logistic regression on the same rows with all classes at once.
"""

import csv
import datetime
import random
import statistics
import sys
from pathlib import Path

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ofcl

GAPS = 0.1  # the share of cells that become empty


def spoilt(name: str, x: np.ndarray, labels: list[str], comma: bool) -> list[dict[str, str]]:
    """Returns rows of a table as text: two columns become categories, cells get lost, dates come.

    Args:
        name: The name of the table, which seeds the draws.
        x: The numbers (n, columns).
        labels: The label of each row.
        comma: Whether numbers have decimal commas.
    """
    draw = random.Random(name)
    bounds = np.quantile(x[:, :2], [0.33, 0.67], axis=0)
    rows = []
    for n, (values, label) in enumerate(zip(x, labels, strict=True)):
        row = {"record_id": f"R{n:05}"}
        day = datetime.date(2020, 1, 1) + datetime.timedelta(days=draw.randrange(1500))
        row["taken"] = day.strftime("%d.%m.%Y")
        for place, value in enumerate(values):
            if place < 2:
                text = ("low", "middle", "high")[int(np.searchsorted(bounds[:, place], value))]
            else:
                text = f"{value:.4g}".replace(".", "," if comma else ".")
            row[f"c{place}"] = "" if draw.random() < GAPS else text
        rows.append({**row, "label": label})
    return rows


def write(path: Path, rows: list[dict[str, str]], delimiter: str) -> None:
    """Writes rows as CSV.

    Args:
        path: The file.
        rows: The rows by column.
        delimiter: The mark between fields.
    """
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def regression(rows: list[dict[str, str]], comma: bool) -> float:
    """Returns the accuracy of a batch logistic regression, on the split that `ofcl` makes.

    Args:
        rows: The rows of the table.
        comma: Whether numbers have decimal commas.
    """
    from ofcl.data.files.whole_table import Table
    from ofcl.data.options import Damage
    from ofcl.data.own.table_files import raw_of_tables
    from ofcl.data.selection import train_and_test

    columns = {name: [row[name] for row in rows] for name in rows[0]}
    how = ofcl.Reading()
    table = Table("table", {**columns, "row": list(range(len(rows)))}, list(range(len(rows))))
    numbered = ofcl.Reading(columns=("row",))
    raw = raw_of_tables("table", {"train": table}, numbered, Damage("stop"))
    train, test = (part.samples[:, 0].astype(int) for part in train_and_test(raw, how))
    numbers = [name for name in columns if name.startswith("c") and name not in ("c0", "c1")]
    cells = np.array(
        [[float(row[n].replace(",", ".") or "nan") for n in numbers] for row in rows], dtype=float
    )
    words = np.array([[row["c0"], row["c1"]] for row in rows], dtype=object)
    x = np.concatenate([cells.astype(object), words], axis=1)
    prepare = make_column_transformer(
        (
            make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
            list(range(len(numbers))),
        ),
        (OneHotEncoder(handle_unknown="ignore"), [len(numbers), len(numbers) + 1]),
    )
    model = make_pipeline(prepare, LogisticRegression(max_iter=2000))
    labels = np.array(columns["label"])
    model.fit(x[train], labels[train])
    return 100 * model.score(x[test], labels[test])


def main(folder: str) -> None:
    """Makes the tables, learns them, and prints a line for each.

    Args:
        folder: The folder of the tables.
    """
    for name, load, comma in (
        ("tumours", load_breast_cancer, True),
        ("wines", load_wine, False),
        ("digits", load_digits, True),
    ):
        data = load()
        labels = [str(data.target_names[y]) for y in data.target]
        rows = spoilt(name, data.data, labels, comma)
        path = Path(folder) / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, rows, ";" if comma else ",")
        found = [ofcl.run(str(path), seed=seed).A or 0.0 for seed in range(5)]
        spread = statistics.stdev(found)
        batch = regression(rows, comma)
        print(
            f"{name}: A {statistics.mean(found):.1f} ± {spread:.1f}, batch {batch:.1f}", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1])
