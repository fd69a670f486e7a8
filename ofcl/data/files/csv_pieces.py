"""Rows of a CSV file, some at a time: by pyarrow where it reads what Python's csv module reads.

A block of lines goes to pyarrow if its quotes stand where they belong and no row is damaged. Other
blocks, and all files where pyarrow is missing, are read row by row (`csv_rows`). Both ways give the
same cells; pyarrow takes a tenth of the time or less.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ofcl.data.files.cell_arrays import ArrowCells, Cells, ListedCells
from ofcl.data.files.csv_rows import column_names, csv_rows, find_delimiter, rows_of_lines
from ofcl.data.files.text_lines import decode_line, decode_lines, is_utf8, open_unpacked
from ofcl.data.options import Damage
from ofcl.errors import OfclError

ROWS = 5000  # of a piece that is read row by row
BLOCK = 2**23  # bytes that pyarrow is given at once
QUOTE = ord('"')


class Piece(NamedTuple):
    """Some rows of a file.

    Args:
        lines: The number of each row's first line, counted from 1.
        columns: The cells of each column.
    """

    lines: range | list[int]
    columns: Mapping[str, Cells]


class _Header(NamedTuple):
    """The first line of a file that pyarrow may read: its number, the names, the delimiter."""

    line: int
    names: tuple[str, ...]
    delimiter: str


def csv_pieces(path: Path, damage: Damage) -> Iterator[Piece]:
    """Yields the rows of a CSV file, some at a time.

    Args:
        path: The file.
        damage: Rows that cannot be used are reported to it.

    Raises:
        OfclError: The file is empty, has no header, or cannot be read as text.
    """
    if importlib.util.find_spec("pyarrow") is not None:
        with open_unpacked(path) as file:
            header = _header(path, file)
            if header is not None:
                yield from _blocks(path, file, header, damage)
                return
    yield from _listed(csv_rows(path, damage, None))


def _listed(rows: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[Piece]:
    """Yields rows that were read one by one, some at a time."""
    while some := list(itertools.islice(rows, ROWS)):
        cells = zip(*(row.values() for _, row in some), strict=True)
        columns = dict(zip(some[0][1], map(ListedCells, cells), strict=True))
        yield Piece([line for line, _ in some], columns)


def _header(path: Path, file: IO[bytes]) -> _Header | None:
    """Reads the first line; None: the file is to be read row by row, from its beginning."""
    number, raw = next(((n, raw) for n, raw in enumerate(file, 1) if raw.strip()), (0, b""))
    if not raw:
        raise OfclError(f"'{path.name}' is empty")
    if b"\0" in raw or raw.count(b'"') % 2 or not is_utf8(raw) or b"\r" in raw.rstrip(b"\r\n"):
        return None
    text = decode_line(path.name, number, raw)
    delimiter = find_delimiter(text)
    try:
        fields = next(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    if not any(field.strip() for field in fields):
        return None
    return _Header(number, column_names(path, fields), delimiter)


def _blocks(path: Path, file: IO[bytes], header: _Header, damage: Damage) -> Iterator[Piece]:
    """Yields the rows behind the header, a block of lines at a time."""
    line, left, more = header.line + 1, b"", True
    while more:
        chunk = file.read(BLOCK)
        more = bool(chunk)
        block = left + chunk
        cut = block.rfind(b"\n") + 1 if more else len(block)
        block, left = block[:cut], block[cut:]
        if not block:
            continue
        lines = block.count(b"\n") + (not block.endswith(b"\n"))
        if not _is_plain_text(block) or not _has_plain_quotes(block, header.delimiter):
            rest = itertools.chain(io.BytesIO(block), _rest(left, file))
            yield from _by_row(path, rest, header, damage, line)
            return
        columns = _parse(block, header, lines)
        if columns is not None:
            yield Piece(range(line, line + lines), columns)
        else:
            yield from _by_row(path, io.BytesIO(block), header, damage, line)
        line += lines


def _rest(left: bytes, file: IO[bytes]) -> Iterator[bytes]:
    """Yields the lines behind a block; the first of them has been read in part."""
    if first := left + file.readline():
        yield first
    yield from file


def _by_row(
    path: Path, lines: Iterable[bytes], header: _Header, damage: Damage, first: int
) -> Iterator[Piece]:
    """Yields the rows in some lines, read one by one."""
    texts = (text for _, text in decode_lines(path.name, lines, first, western=True))
    rows = rows_of_lines(path, texts, damage, header.names, header.delimiter, first)
    yield from _listed(rows)


def _is_plain_text(block: bytes) -> bool:
    """Says whether a block is text in UTF-8, with line ends that all readers take for such."""
    if b"\0" in block or block.count(b"\r") != block.count(b"\r\n"):
        return False
    return block.isascii() or is_utf8(block)


def _has_plain_quotes(block: bytes, delimiter: str) -> bool:
    """Says whether quotes open and close whole fields, each within its line.

    Args:
        block: The lines.
        delimiter: The delimiter of the fields.
    """
    if b'"' not in block:
        return True
    data = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(data == QUOTE)
    lines = np.searchsorted(np.flatnonzero(data == ord("\n")), quotes)
    if (np.bincount(lines) % 2).any():
        return False
    padded = np.concatenate([[ord("\n")], data, [ord("\n")]])
    before, behind = padded[quotes[0::2]], padded[quotes[1::2] + 2]
    border = [ord(delimiter), ord("\n"), QUOTE]
    return bool(np.isin(before, border).all() and np.isin(behind, [*border, ord("\r")]).all())


def _parse(block: bytes, header: _Header, lines: int) -> dict[str, Cells] | None:
    """Reads a block with pyarrow; None: a row is damaged or empty.

    Args:
        block: The lines.
        header: The names and the delimiter.
        lines: The number of the lines, which must be that of the rows.
    """
    import pyarrow as pa
    import pyarrow.csv

    empty = rb'\n[ \t\r"' + re.escape(header.delimiter.encode()) + rb"]+(?:\n|\Z)"
    if re.search(empty, b"\n" + block):  # a row without content, which is passed over
        return None
    read = pa.csv.ReadOptions(column_names=header.names)
    parse = pa.csv.ParseOptions(delimiter=header.delimiter)
    types = dict.fromkeys(header.names, pa.string())
    convert = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    try:
        table = pa.csv.read_csv(pa.BufferReader(block), read, parse, convert)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != lines:
        return None
    return {name: ArrowCells(table[name].combine_chunks()) for name in header.names}
