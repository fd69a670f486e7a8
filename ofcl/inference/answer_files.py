"""Files of answers: CSV, JSON lines, Parquet. They are whole or absent."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from ofcl.errors import OfclError
from ofcl.storage.atomic_files import sync

_NUMBERS = re.compile(r"probability(_\d+)?|uncertainty")
SUFFIXES = (".csv", ".jsonl", ".parquet")


class Writer(Protocol):
    """Writes rows of answers as they come."""

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Writes some rows.

        Args:
            rows: The rows of values, in the order of the columns.
        """


class CsvWriter:
    """Writes rows as CSV; None is an empty cell.

    Args:
        file: The file, open for writing text.
        columns: The names of the columns, which become the first line.
    """

    def __init__(self, file: IO[str], columns: Sequence[str]) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(columns)

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Writes some rows.

        Args:
            rows: The rows of values, in the order of the columns.
        """
        self._writer.writerows([[_in_csv(value) for value in row] for row in rows])


class JsonWriter:
    """Writes rows as JSON lines, an object on each.

    Args:
        file: The file, open for writing text.
        columns: The names of the columns.
    """

    def __init__(self, file: IO[str], columns: Sequence[str]) -> None:
        self._file, self._columns = file, columns

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Writes some rows.

        Args:
            rows: The rows of values, in the order of the columns.
        """
        for row in rows:
            self._file.write(json_line(dict(zip(self._columns, row, strict=True))))


class ParquetWriter:
    """Writes rows as a Parquet file.

    Args:
        path: The file.
        columns: The names of the columns.

    Raises:
        OfclError: If pyarrow is not installed.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise OfclError(
                "Parquet files need the package pyarrow; install it with: pip install 'ofcl[hub]'"
            ) from None
        kinds = {True: pyarrow.float64(), False: pyarrow.string()}
        self._numbers = [bool(_NUMBERS.fullmatch(name)) for name in columns]
        pairs = zip(columns, self._numbers, strict=True)
        self._schema = pyarrow.schema([(name, kinds[number]) for name, number in pairs])
        self._make, self._columns = pyarrow.RecordBatch.from_pylist, columns
        self._file = parquet.ParquetWriter(path, self._schema)

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Writes some rows.

        Args:
            rows: The rows of values, in the order of the columns.
        """
        kinds = list(zip(self._columns, self._numbers, strict=True))
        values = [
            {
                name: value if number or value is None else str(_in_csv(value))
                for (name, number), value in zip(kinds, row, strict=True)
            }
            for row in rows
        ]
        self._file.write_batch(self._make(values, schema=self._schema))

    def close(self) -> None:
        """Writes the end of the file."""
        self._file.close()


def json_line(values: dict[str, Any]) -> str:
    """Writes values as a line of JSON without anything that a terminal would obey.

    Args:
        values: The values by name.

    >>> json_line({"label": "Löwe" + chr(0x9b) + "31m"})
    '{"label": "Löwe\\\\u009b31m"}\\n'
    """
    return escaped(json.dumps(values, ensure_ascii=False, default=str)) + "\n"


def escaped(text: str) -> str:
    """Writes letters of a JSON text that a terminal would obey as JSON can write them.

    Args:
        text: The JSON text; line breaks between values stay.
    """
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def check_suffix(path: Path) -> None:
    """Raises an error if the name of a file says no format that can be written.

    Args:
        path: The file.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise OfclError(f"'{path}': expected a name that ends with {', '.join(SUFFIXES)}")


@contextmanager
def open_answers(path: Path, columns: Sequence[str]) -> Iterator[Writer]:
    """Opens a file of answers; it gets its name when all of them are in it.

    Args:
        path: The file, whose suffix says its format; an older one is replaced.
        columns: The names of the columns.

    Raises:
        OfclError: If it cannot be written.
    """
    check_suffix(path)
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".parquet":
            writer = ParquetWriter(partial, columns)
            try:
                yield writer
            finally:
                writer.close()
        else:
            make = CsvWriter if path.suffix.lower() == ".csv" else JsonWriter
            with partial.open("w", encoding="utf-8", newline="") as file:
                yield make(file, columns)
        sync(partial)
        partial.replace(path)
    except OSError as error:
        raise OfclError(f"'{path}' cannot be written ({error.strerror or error})") from None
    finally:
        partial.unlink(missing_ok=True)


def _in_csv(value: Any) -> Any:
    """Returns a value for a cell: lists and objects as JSON, others as they are."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
