"""Tables with labels in one column, and texts or numbers in others: CSV, JSON lines, Parquet."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ofcl.data.files.columns import Meaning, find_meaning
from ofcl.data.files.labels import check_labels, whole_numbers
from ofcl.data.files.table_facts import TableFacts
from ofcl.data.files.tables import read_table, table_format
from ofcl.data.files.whole_table import Table
from ofcl.data.options import Damage, Reading
from ofcl.data.own.image_folder import TEST_NAMES, TRAIN_NAMES
from ofcl.data.own.large_tables import NotInPieces, find_large_meaning, is_large, store
from ofcl.data.raw import Content, LabelledSamples, Raw, raw_from_labelled
from ofcl.errors import OfclError

Row = tuple[int, Any, str]
"""The line of a row in its file, its sample and its label."""

_CONTENT: dict[str, Content] = {
    "text": "texts",
    "list": "vectors",
    "numbers": "table",
    "mixed": "mixed table",
}


def tables_of_folder(path: Path) -> dict[str, Path]:
    """Finds `train.csv` and perhaps `test.csv` in a folder, or the same in other formats.

    Args:
        path: The folder.

    Returns:
        The file of each part; empty if there is no train file.

    Raises:
        OfclError: There are two files for one part.
    """
    files: dict[str, Path] = {}
    for file in sorted(p for p in path.iterdir() if table_format(p)):
        part = file.name.split(".")[0].lower()
        if part in files and part in (*TRAIN_NAMES, *TEST_NAMES):
            raise OfclError(f"'{path}' has both {files[part].name} and {file.name}; keep one")
        files[part] = file
    train, test = (
        next((files[name] for name in names if name in files), None)
        for names in (TRAIN_NAMES, TEST_NAMES)
    )
    if train is None:
        return {}
    return {"train": train, "test": test} if test else {"train": train}


def table_files(name: str, paths: dict[str, Path], how: Reading) -> Raw:
    """Reads the rows of a train file and, if there is one, of a test file.

    Args:
        name: The name of the dataset.
        paths: The files of `train` and perhaps `test`.
        how: The options of reading.
    """
    damage = Damage(how.on_bad)
    all_csv = all(table_format(path) == "csv" for path in paths.values())
    if all_csv and how.text is None and any(is_large(path, how) for path in paths.values()):
        with contextlib.suppress(NotInPieces):
            return _raw_in_pieces(name, paths, how, damage)
    tables = {part: read_table(path, damage) for part, path in paths.items()}
    return raw_of_tables(name, tables, how, damage)


def raw_of_tables(name: str, tables: dict[str, Table], how: Reading, damage: Damage) -> Raw:
    """Makes raw data from a train table and perhaps a test table with the same columns.

    Args:
        name: The name of the dataset.
        tables: The tables of `train` and perhaps `test`.
        how: The options of reading, which may name the columns.
        damage: Rows that cannot be used are reported to it.

    Raises:
        OfclError: The train table has no rows, or a column does not exist.
    """
    if not len(tables["train"]):
        raise OfclError(f"'{tables['train'].name}' has no rows")
    meaning = find_meaning(tables["train"], how, mixed=True)
    content = _CONTENT[meaning.kind]
    parts: dict[str, LabelledSamples] = {}
    length: int | None = None  # of lists of numbers: the usual one of the train table
    for part, table in tables.items():
        for column in (meaning.label, *meaning.columns) if len(table) else ():
            table.column(column)
        rows = []
        for i, line in enumerate(table.lines):
            row = {column: values[i] for column, values in table.columns.items()}
            try:
                rows.append((line, *meaning.read(row)))
            except ValueError as error:
                damage.report(f"'{table.name}', line {line}: {error}")
        if meaning.kind == "list":
            length = length or _usual_length([sample for _, sample, _ in rows])
            rows = _of_length(length, rows, table.name, damage)
        samples: list[Any] = [sample for _, sample, _ in rows]
        plain = content in ("texts", "mixed table")
        array = samples if plain else np.array(samples, dtype=np.float64)
        parts[part] = array, whole_numbers([label for _, _, label in rows])
    return _raw(name, tables["train"], meaning, parts, damage)


def _raw_in_pieces(name: str, paths: dict[str, Path], how: Reading, damage: Damage) -> Raw:
    """Reads CSV files in pieces; their rows stay on the disk, as numbers.

    Args:
        name: The name of the dataset.
        paths: The files of `train` and perhaps `test`.
        how: The options of reading.
        damage: Rows that cannot be used are reported to it.
    """
    meaning, facts = find_large_meaning(paths["train"], how)
    parts: dict[str, LabelledSamples] = {}
    for part, path in paths.items():
        rows, labels = store(path, meaning, how, damage)
        # Nothing but `Part` and `preparation` looks into the samples of a table.
        parts[part] = cast(Any, rows), whole_numbers(labels)
    return _raw(name, facts, meaning, parts, damage)


def _raw(
    name: str,
    train: Table | TableFacts,
    meaning: Meaning,
    parts: dict[str, LabelledSamples],
    damage: Damage,
) -> Raw:
    """Makes raw data from the rows that were read.

    Args:
        name: The name of the dataset.
        train: The train table, or the facts about it, for the names of its columns.
        meaning: The meaning of the columns.
        parts: The samples and labels of each part.
        damage: The rows that were left out.
    """
    labels = parts["train"][1]
    check_labels(f"column '{meaning.label}' of '{train.name}'", labels)
    details = {
        "columns": ", ".join(train.columns),
        "label": meaning.label,
        meaning.kind: ", ".join(meaning.columns),
    }
    notes = (*damage.notes(name), *_notes(name, meaning, labels))
    raw = raw_from_labelled(name, _CONTENT[meaning.kind], parts, notes, details)
    return replace(raw, columns=meaning.columns, label=meaning.label, codes=meaning.codes)


def _notes(name: str, meaning: Meaning, labels: Sequence[str]) -> tuple[str, ...]:
    """Writes lines about columns that are left out, and about labels that are nearly the same.

    Args:
        name: The name of the dataset.
        meaning: The meaning of its columns.
        labels: The label of each train row.
    """
    notes = []
    if meaning.left_out:
        why = "; ".join(f"{column} ({reason})" for column, reason in meaning.left_out.items())
        notes.append(f"{name}: columns left out: {why}. To have one in, name all columns to "
                     "learn from: --columns a --columns b …")  # fmt: skip
    spellings: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        spellings.setdefault("".join(label.lower().split()), []).append(label)
    for alike in spellings.values():
        if len(alike) > 1:
            quoted = ", ".join(map(repr, alike))
            notes.append(f"{name}: the labels {quoted} differ only in case or spaces; they are "
                         "learned as different classes")  # fmt: skip
    return tuple(notes)


def _usual_length(lists: list[list[float]]) -> int:
    """Returns the most frequent length of some lists; 0 if there are none."""
    return Counter(map(len, lists)).most_common(1)[0][0] if lists else 0


def _of_length(length: int, rows: list[Row], name: str, damage: Damage) -> list[Row]:
    """Keeps the rows whose lists have the given length, and reports the others.

    Args:
        length: The length to keep.
        rows: The rows: line, list of numbers, label.
        name: The name of the table, for messages.
        damage: Rows of another length are reported to it.
    """
    kept = []
    for line, numbers, label in rows:
        if len(numbers) == length:
            kept.append((line, numbers, label))
        else:
            damage.report(f"'{name}', line {line}: {len(numbers)} numbers, others have {length}")
    return kept
