"""CSV, JSONL and Parquet files with a column of labels, and texts or numbers beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ofcl.data.columns import find_meaning, numbers_as_array
from ofcl.data.labels import check_labels
from ofcl.data.own.image_folder import TEST_NAMES
from ofcl.data.raw import Content, Found, Raw, check_alike, gather
from ofcl.data.reading import Damage, Reading
from ofcl.data.tables import Table, read_table, table_format
from ofcl.errors import OfclError

_CONTENT: dict[str, Content] = {"text": "texts", "list": "vectors", "numbers": "table"}


def tables_of_folder(path: Path) -> dict[str, Path]:
    """`train.csv` and perhaps `test.csv`, or in another format."""
    files = {p.name.split(".")[0].lower(): p for p in sorted(path.iterdir()) if table_format(p)}
    if "train" not in files:
        return {}
    test = next((files[name] for name in TEST_NAMES if name in files), None)
    return {"train": files["train"], **({"test": test} if test else {})}


def table_files(name: str, paths: dict[str, Path], how: Reading) -> Raw:
    """The rows of a train file, and perhaps of a test file."""
    damage = Damage(how.on_bad)
    tables = {part: read_table(path, damage) for part, path in paths.items()}
    return raw_of_tables(name, tables, how, damage)


def raw_of_tables(name: str, tables: dict[str, Table], how: Reading, damage: Damage) -> Raw:
    """A train table, and perhaps a test table of the same columns, as data."""
    if not len(tables["train"]):
        raise OfclError(f"'{tables['train'].name}' has no rows")
    meaning = find_meaning(tables["train"], how)
    content = _CONTENT[meaning.kind]
    found: dict[str, Found] = {}
    for part, table in tables.items():
        samples: list[Any] = []
        names: list[str] = []
        for i, line in enumerate(table.lines):
            row = {column: values[i] for column, values in table.columns.items()}
            try:
                sample, label = meaning.read(row)
            except ValueError as error:
                damage.report(f"'{table.name}', line {line}: {error}")
            else:
                samples.append(sample)
                names.append(label)
        array = samples if content == "texts" else numbers_as_array(samples, table.name)
        found[part] = array, names
    check_labels(f"column '{meaning.label}' of '{tables['train'].name}'", found["train"][1])
    if content != "texts" and "test" in found and len(found["test"][1]):
        check_alike(name, np.asarray(found["train"][0]), np.asarray(found["test"][0]))
    details = {
        "columns": ", ".join(tables["train"].columns),
        "label": meaning.label,
        meaning.kind: ", ".join(meaning.columns),
    }
    return gather(name, content, found, damage.notes(name), details)
