"""Tables: CSV, JSON lines and Parquet as columns of values, with the line of every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ofcl.data.files.csv_rows import check_column_names, csv_rows
from ofcl.data.files.json_rows import json_rows
from ofcl.data.files.sheets import read_sheet
from ofcl.data.files.text_lines import OPENERS
from ofcl.data.files.whole_table import Table
from ofcl.data.options import Damage
from ofcl.errors import OfclError

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
"""The formats of tables by the ending of a file's name."""


def table_format(path: Path) -> str | None:
    """Returns the format of a table by its file's name: csv, jsonl, parquet, xlsx; None: no table.

    Args:
        path: The file, which need not exist.

    >>> table_format(Path("a/b.csv.gz")), table_format(Path("x.NDJSON")), table_format(Path("x.py"))
    ('csv', 'jsonl', None)
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in OPENERS:
        suffixes.pop()
    return FORMATS.get(suffixes[-1]) if suffixes else None


def read_table(path: Path, damage: Damage, header: tuple[str, ...] | None = None) -> Table:
    """Reads a whole table.

    Args:
        path: The file, in a format that `table_format` knows.
        damage: Rows that cannot be used are reported to it.
        header: The names of the columns, for a CSV file whose first line does not name them; None:
            the file names them.

    Raises:
        OfclError: The file as a whole cannot be used.
    """
    kind = table_format(path)
    if kind == "parquet":
        return _read_parquet(path)
    if kind == "xlsx":
        return read_sheet(path)
    rows = csv_rows(path, damage, header) if kind == "csv" else json_rows(path, damage)
    columns: dict[str, list[Any]] = {}
    lines: list[int] = []
    for line, row in rows:
        for name in row:
            if name not in columns:  # a later JSON object may bring a new name
                columns[name] = [None] * len(lines)
        for name, values in columns.items():
            values.append(row.get(name))
        lines.append(line)
    return Table(path.name, columns, lines)


def _read_parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise OfclError(
            "Parquet files need the package pyarrow; install it with: pip install 'ofcl[hub]'"
        ) from None
    try:
        table = parquet.ParquetFile(path).read()
        check_column_names(path, table.column_names)
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        reason = str(error).split("\n")[0]
        raise OfclError(f"'{path.name}' cannot be read as Parquet ({reason})") from None
    return Table(path.name, columns, list(range(1, table.num_rows + 1)))
