"""Tables that are larger than the memory: two passes over a CSV file, a piece at a time.

The first pass collects facts about the columns and finds what they mean. The second pass reads the
cells and writes them to a file as numbers. Samples are read from there when they are needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ofcl.data.files.cells import LARGEST, read_label, read_number
from ofcl.data.files.column_codes import MISSING, ColumnCode
from ofcl.data.files.column_facts import GUESS_ROWS, ColumnFacts
from ofcl.data.files.column_guesses import guess_plain
from ofcl.data.files.columns import Meaning, find_meaning
from ofcl.data.files.csv_rows import csv_rows
from ofcl.data.files.table_facts import TableFacts
from ofcl.data.files.tables import table_format
from ofcl.data.options import Damage, Reading
from ofcl.data.stored_rows import RowFile, StoredRows
from ofcl.errors import OfclError

ROWS = 5000  # of a piece
MOST_WORDS = 100_000  # different words of a column that are kept
_GAPS = {form(word) for word in MISSING for form in (str, str.upper, str.title)} | {"NaN"}

Piece = tuple[list[int], dict[str, Sequence[str]]]
"""The lines of some rows in their file, and the cells of these rows by column."""


class NotInPieces(OfclError):
    """A table of texts or lists, which is read whole whatever its size."""


def is_large(path: Path, how: Reading) -> bool:
    """Says whether a table is read in pieces: a CSV file that is larger than the options allow.

    Args:
        path: The file.
        how: The options of reading.
    """
    return table_format(path) == "csv" and path.stat().st_size > how.in_memory


def pieces(path: Path, damage: Damage) -> Iterator[Piece]:
    """Yields the rows of a CSV file, some at a time.

    Args:
        path: The file.
        damage: Rows that cannot be used are reported to it.
    """
    rows = csv_rows(path, damage, None)
    while some := list(itertools.islice(rows, ROWS)):
        cells = zip(*(row.values() for _, row in some), strict=True)
        yield [line for line, _ in some], dict(zip(some[0][1], cells, strict=True))


def look_through(path: Path) -> TableFacts:
    """Collects facts about all columns of a file: the first pass.

    Damaged rows are passed over; the second pass reports them.

    Args:
        path: The file.

    Raises:
        OfclError: The file has no rows.
    """
    found: dict[str, ColumnFacts] = {}
    for _, columns in pieces(path, Damage("skip")):
        for name, cells in columns.items():
            facts = found.setdefault(name, ColumnFacts(name, MOST_WORDS))
            before = len(facts.some)
            facts.add(cells)
            # The first cells decide whether words may be categories.
            if before < GUESS_ROWS <= len(facts.some) and guess_plain(name, facts.some) is not None:
                facts.stop_counting()
    if not found:
        raise OfclError(f"'{path.name}' has no rows")
    return TableFacts(path.name, list(found), lambda n: found[n].first, found.__getitem__)


def find_large_meaning(path: Path, how: Reading) -> tuple[Meaning, TableFacts]:
    """Finds what the columns of a file mean.

    Args:
        path: The file.
        how: The options of reading.

    Raises:
        OfclError: The meaning is not clear.
        NotInPieces: The samples are texts or lists.
    """
    facts = look_through(path)
    meaning = find_meaning(facts, how, mixed=True)
    if meaning.kind not in ("numbers", "mixed"):
        raise NotInPieces(f"'{path.name}' has texts or lists, which are read whole")
    return meaning, facts


def store(
    path: Path, meaning: Meaning, how: Reading, damage: Damage
) -> tuple[StoredRows, list[str]]:
    """Reads the cells of a file and stores them as numbers: the second pass.

    Args:
        path: The file.
        meaning: The meaning of its columns.
        how: The options of reading.
        damage: Rows that cannot be used are reported to it.

    Returns:
        The rows, and the label of each.
    """
    columns = meaning.codes or tuple(ColumnCode(name, "number") for name in meaning.columns)
    readers = [_ColumnReader(code, plain=not meaning.codes) for code in columns]
    file = RowFile(how.root / "tables", len(columns))
    labels: list[str] = []
    known: dict[str, str] = {}  # each different label is kept once
    for lines, cells in pieces(path, damage):
        for name in (meaning.label, *meaning.columns):
            if name not in cells:
                raise OfclError(f"'{path.name}' has no column '{name}'")
        kept = _read_piece(path.name, meaning, readers, lines, cells, damage)
        file.append(kept[0])
        labels += [known.setdefault(label, label) for label in kept[1]]
    words = tuple(tuple(reader.words) for reader in readers)
    return StoredRows(file, np.arange(file.rows), words), labels


def _read_piece(
    name: str,
    meaning: Meaning,
    readers: Sequence[_ColumnReader],
    lines: Sequence[int],
    cells: Mapping[str, Sequence[str]],
    damage: Damage,
) -> tuple[np.ndarray, list[str]]:
    """Reads the rows of a piece; returns their numbers and labels, without damaged rows."""
    try:
        labels = [read_label(cell, meaning.label) for cell in cells[meaning.label]]
        return np.stack([reader.read(cells[reader.code.name]) for reader in readers], 1), labels
    except ValueError:  # some row is damaged: row by row
        kept, labels = [], []
        for place, line in enumerate(lines):
            try:
                row = [reader.read([cells[reader.code.name][place]])[0] for reader in readers]
                labels.append(read_label(cells[meaning.label][place], meaning.label))
                kept.append(row)
            except ValueError as error:
                damage.report(f"'{name}', line {line}: {error}")
        return np.array(kept, dtype=np.float64).reshape(-1, len(readers)), labels


class _ColumnReader:
    """Reads the cells of a column as numbers; a category becomes the number of its word.

    Args:
        code: The code of the column.
        plain: Whether all its cells are numbers and a gap is damage.
    """

    def __init__(self, code: ColumnCode, plain: bool) -> None:
        self.code, self._plain = code, plain
        self.words: dict[str, int] = {}
        self._known: dict[str, float] = {}  # cells that were read before

    def read(self, cells: Sequence[str]) -> np.ndarray:
        """Reads cells; NaN stands for an empty one.

        Args:
            cells: The cells.

        Raises:
            ValueError: A cell cannot be used; the message says why.
        """
        if self.code.kind == "number" and self.code.decimal == ".":
            if (numbers := self._numbers(cells)) is not None:
                return numbers
        elif len(self._known) > MOST_WORDS:
            self._known.clear()
        return np.array([self._cell(cell) for cell in cells], dtype=np.float64)

    def _numbers(self, cells: Sequence[str]) -> np.ndarray | None:
        """Reads numbers at little cost; None: a cell needs a closer look."""
        try:
            if self._plain:
                numbers = np.array(list(map(float, cells)))
                return numbers if (np.abs(numbers) <= LARGEST).all() else None
            numbers = np.array([np.nan if c in _GAPS else float(c) for c in cells])
        except ValueError:
            return None
        return numbers if not (np.abs(numbers) > LARGEST).any() else None

    def _cell(self, cell: str) -> float:
        """Reads a cell; one that was read before is looked up."""
        if self._plain:
            return read_number(cell, self.code.name)
        if self.code.kind == "number":
            return _number_or_gap(self.code.read(cell))
        if cell not in self._known:
            value = self.code.read(cell)
            if isinstance(value, str):
                value = self.words.setdefault(value, len(self.words))
            self._known[cell] = _number_or_gap(value)
        return self._known[cell]


def _number_or_gap(value: Any) -> float:
    return np.nan if value is None else float(value)
