"""Rows of tables that may be larger than the memory, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ofcl.data.files.csv_rows import check_column_names, csv_rows
from ofcl.data.files.json_rows import json_rows
from ofcl.data.files.tables import read_table, table_format
from ofcl.data.files.text_lines import open_unpacked, read_lines
from ofcl.data.options import Damage
from ofcl.errors import OfclError

CHUNK = 2**20  # bytes
ROWS = 4096  # of a Parquet file that are in memory at once


def count_rows(path: Path) -> int:
    """Counts the lines of a text file, or the rows of another, without keeping them.

    Args:
        path: The file.
    """
    if table_format(path) == "parquet":
        return int(_open_parquet(path).metadata.num_rows)
    if table_format(path) == "xlsx":
        return len(read_table(path, Damage()))
    with open_unpacked(path) as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK), b""))


def rows_of_table(path: Path, damage: Damage) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each row as its line in the file, counted from 1, and its values by column.

    The lines of a file that is no table have one column, whose name is empty; blank lines are left
    out.

    Args:
        path: The file.
        damage: Rows that cannot be used are reported to it.

    Raises:
        OfclError: If the file as a whole cannot be used.
    """
    match table_format(path):
        case "csv":
            yield from csv_rows(path, damage, None)
        case "jsonl":
            yield from json_rows(path, damage)
        case "parquet":
            yield from _parquet_rows(path)
        case "xlsx":
            table = read_table(path, damage)
            for n, line in enumerate(table.lines):
                yield line, {name: values[n] for name, values in table.columns.items()}
        case _:
            for line, text in read_lines(path):
                if text.strip():
                    yield line, {"": text.strip("\r\n")}


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the rows of a Parquet file, counted from 1."""
    from pyarrow import ArrowException

    file = _open_parquet(path)
    check_column_names(path, file.schema_arrow.names)
    try:
        line = 1
        for batch in file.iter_batches(ROWS):
            for row in batch.to_pylist():
                yield line, row
                line += 1
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        raise _not_parquet(path, error) from None


def _open_parquet(path: Path) -> Any:
    """Opens a Parquet file."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise OfclError(
            "Parquet files need the package pyarrow; install it with: pip install 'ofcl[hub]'"
        ) from None
    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError, ValueError) as error:
        raise _not_parquet(path, error) from None


def _not_parquet(path: Path, error: Exception) -> OfclError:
    reason = str(error).split("\n")[0]
    return OfclError(f"'{path.name}' cannot be read as Parquet ({reason})")
