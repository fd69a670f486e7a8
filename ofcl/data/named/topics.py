"""DBPedia-14 and Yahoo Answers (Zhang et al. 2015), from the hub's Parquet or the authors' CSV."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ofcl.data.files.tables import read_table
from ofcl.data.options import Damage
from ofcl.data.raw import Part, Raw
from ofcl.errors import OfclError

ENTITIES = (
    "Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder",
    "MeanOfTransportation", "Building", "NaturalPlace", "Village", "Animal", "Plant", "Album",
    "Film", "WrittenWork",
)  # fmt: skip
TOPICS = (
    "Society & Culture", "Science & Mathematics", "Health", "Education & Reference",
    "Computers & Internet", "Sports", "Business & Finance", "Entertainment & Music",
    "Family & Relationships", "Politics & Government",
)  # fmt: skip

CSV_FOLDERS = {"dbpedia": "dbpedia_csv", "yahoo": "yahoo_answers_csv"}
"""The folders in the authors' archives."""


def dbpedia(root: Path) -> Raw:
    """Reads DBPedia-14: titles and abstracts of 14 kinds of things.

    Args:
        root: The data folder, with the hub's Parquet files or the authors' CSV files in it.
    """
    return _read("dbpedia", root, "label", ("title", "content"), ENTITIES)


def yahoo(root: Path) -> Raw:
    """Reads Yahoo Answers: questions and their best answers on ten topics.

    Args:
        root: The data folder, with the hub's Parquet files or the authors' CSV files in it.
    """
    fields = ("question_title", "question_content", "best_answer")
    return _read("yahoo", root, "topic", fields, TOPICS)


def from_hub(name: str, hub_id: str) -> Callable[[Path], None]:
    """Makes a function that downloads a dataset from the hub as Parquet.

    Args:
        name: The name of the dataset, which becomes the name of its folder.
        hub_id: Its id on the Hugging Face hub.

    Returns:
        A function of the data folder, into which it downloads.
    """

    def download(root: Path) -> None:
        try:
            import datasets
        except ImportError:
            raise OfclError(
                "its download needs the package datasets (pip install 'ofcl[hub]')"
            ) from None
        try:
            dataset = datasets.load_dataset(hub_id)
            (root / name).mkdir(parents=True, exist_ok=True)
            for part in ("train", "test"):
                partial = root / name / f"{part}.parquet.partial"
                dataset[part].to_parquet(partial)
                partial.replace(root / name / f"{part}.parquet")
        except Exception as error:  # of the network, the hub, the disk
            reason = str(error).strip().split("\n")[0]
            raise OfclError(f"it cannot be downloaded ({reason[:200]})") from None

    return download


def _read(
    name: str, root: Path, label: str, fields: tuple[str, ...], labels: tuple[str, ...]
) -> Raw:
    """Reads the train and the test part of a dataset of texts.

    Args:
        name: The name of the dataset.
        root: The data folder.
        label: The column of the classes, as numbers.
        fields: The columns whose texts are joined to one.
        labels: The label of each class.
    """
    train, test = (_part(name, root, part, label, fields, labels) for part in ("train", "test"))
    return Raw(name, "texts", train, labels, test)


def _part(
    name: str,
    root: Path,
    part: str,
    label: str,
    fields: tuple[str, ...],
    labels: tuple[str, ...],
) -> Part:
    """Reads one part of a dataset of texts, from Parquet or else from the authors' CSV.

    Args:
        name: The name of the dataset.
        root: The data folder.
        part: `train` or `test`.
        label: The column of the classes, as numbers.
        fields: The columns whose texts are joined to one.
        labels: The label of each class.
    """
    path, first_class = root / name / f"{part}.parquet", 0
    if not path.exists():  # the authors' files have no header, and count classes from 1
        path, first_class = root / CSV_FOLDERS[name] / f"{part}.csv", 1
    table = read_table(path, Damage(), header=(label, *fields))
    # Missing fields of a text are left out, as the authors' readers do.
    columns = [table.column(field) for field in fields]
    texts = [" ".join(piece for piece in row if piece) for row in zip(*columns, strict=True)]
    try:
        y = np.array([int(value) for value in table.column(label)], dtype=np.int64)
    except (TypeError, ValueError):
        raise OfclError(f"'{path}': its first column must be the number of the class") from None
    last_class = first_class + len(labels) - 1
    if len(y) and not first_class <= y.min() <= y.max() <= last_class:
        raise OfclError(
            f"'{path}' has classes from {y.min()} to {y.max()}; expected {first_class} to "
            f"{last_class}"
        )
    return Part(texts, y - first_class)
