"""Sheets of Excel files as tables."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from ofcl.data.files.csv_rows import check_column_names
from ofcl.data.files.whole_table import Table
from ofcl.errors import OfclError


def read_sheet(path: Path) -> Table:
    """Reads the first sheet of an Excel file, whose first row names the columns.

    Args:
        path: The file.

    Raises:
        OfclError: The package openpyxl is not installed, or the file cannot be used.
    """
    try:
        import openpyxl
    except ImportError:
        raise OfclError(
            "Excel files need the package openpyxl; install it with: pip install 'ofcl[excel]'"
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        rows = list(book.worksheets[0].iter_rows(values_only=True))
        book.close()
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise OfclError(f"'{path.name}' cannot be read as an Excel file ({error})") from None
    full = [(line, row) for line, row in enumerate(rows, 1) if any(c is not None for c in row)]
    if not full:
        raise OfclError(f"'{path.name}' is empty")
    (_, header), *body = full
    names = ["" if name is None else " ".join(str(name).split()) for name in header]
    check_column_names(path, [name for name in names if name])
    columns: dict[str, list[Any]] = {
        name: [row[place] for _, row in body] for place, name in enumerate(names) if name
    }
    return Table(path.name, columns, [line for line, _ in body])
