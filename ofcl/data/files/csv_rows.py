"""Rows of CSV files, with any of the usual delimiters."""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ofcl.data.files.cells import is_number
from ofcl.data.files.text_lines import read_lines
from ofcl.data.options import Damage
from ofcl.errors import OfclError

DELIMITERS = ",;\t|"


def csv_rows(
    path: Path, damage: Damage, header: tuple[str, ...] | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each row as the number of its first line, counted from 1, and its values by column.

    Args:
        path: The file.
        damage: Rows that cannot be used are reported to it.
        header: The names of the columns; None: the first line of the file names them.

    Raises:
        OfclError: The file is empty, has no header, or has a quote that is not closed.
    """
    lines = read_lines(path, western=True)
    first = next(((line, text) for line, text in lines if text.strip()), None)
    if first is None:
        raise OfclError(f"'{path.name}' is empty")
    first_line, first_text = first
    texts = itertools.chain([first_text], (text for _, text in lines))
    # Files whose columns are known from elsewhere are the usual ones, with commas.
    delimiter = "," if header else find_delimiter(first_text)
    yield from rows_of_lines(path, texts, damage, header, delimiter, first_line)


def rows_of_lines(
    path: Path,
    texts: Iterable[str],
    damage: Damage,
    header: tuple[str, ...] | None,
    delimiter: str,
    first_line: int,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the rows in some lines, each with the number of its first line, counted from 1.

    Args:
        path: The file, for messages.
        texts: The lines.
        damage: Rows that cannot be used are reported to it.
        header: The names of the columns; None: the first row names them.
        delimiter: The delimiter of the fields.
        first_line: The number of the first of these lines.

    Raises:
        OfclError: There is no header, or a quote is not closed.
    """
    with _long_fields():
        reader = csv.reader(texts, delimiter=delimiter, strict=True)
        before = first_line - 1
        while True:
            line = before + reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = f"'{path.name}', line {line}: {error}"
                if header is None:  # the next row must not be taken for the header
                    raise OfclError(f"{problem}; the first line must name the columns") from None
                last = before + reader.line_num
                if last > line:
                    raise OfclError(
                        f"{problem}: a quote opens there and swallows the lines up to {last}; "
                        'close it, or write it twice ("") where it is meant'
                    ) from None
                damage.report(problem, line)
                continue
            if not any(field.strip() for field in row):
                continue
            if header is None:
                header = column_names(path, row)
            elif len(row) != len(header):
                damage.report(
                    f"'{path.name}', line {line}: {len(row)} fields, but there are "
                    f"{len(header)} columns",
                    line,
                )
            else:
                yield line, dict(zip(header, row, strict=True))


def check_column_names(path: Path, names: Sequence[str]) -> None:
    """Raises an error if two columns of a table have the same name.

    Args:
        path: The file, for the message.
        names: The names of its columns.
    """
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise OfclError(f"'{path.name}' has two columns of the name '{min(twice)}'")


def column_names(path: Path, row: list[str]) -> tuple[str, ...]:
    """Returns the names of the columns in the first row of a CSV file.

    Args:
        path: The file, for messages.
        row: The fields of the first row.

    Raises:
        OfclError: All fields are numbers, or two are the same.
    """
    names = tuple(" ".join(name.split()) for name in row)  # spreadsheets break long names
    check_column_names(path, names)
    if all(is_number(name) for name in names):
        raise OfclError(
            f"'{path.name}' begins with numbers ({', '.join(names[:3])} …); its first line must "
            "name the columns"
        )
    return names


def find_delimiter(header: str) -> str:
    """Chooses the delimiter that cuts the first line of a file into the most names.

    Args:
        header: The first line.
    """

    def count_names(delimiter: str) -> int:
        try:
            return len(next(csv.reader([header], delimiter=delimiter)))
        except csv.Error:  # the reader of all lines will say so
            return 0

    return max(DELIMITERS, key=count_names)


@contextmanager
def _long_fields() -> Iterator[None]:
    """Allows fields of any length inside the `with` block; the csv module refuses long ones."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)
