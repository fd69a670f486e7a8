"""Tables that are larger than the memory: two passes over a CSV file, a piece at a time.

The first pass collects facts about the columns and finds what they mean. The second pass reads the
cells and writes them to a file as numbers. Samples are read from there when they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ofcl.data.files.cell_arrays import Cells, ListedCells
from ofcl.data.files.cells import LARGEST, read_label, read_number
from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.files.column_facts import GUESS_ROWS, ColumnFacts
from ofcl.data.files.column_guesses import guess_plain
from ofcl.data.files.columns import Meaning, find_meaning
from ofcl.data.files.csv_pieces import Piece, csv_pieces
from ofcl.data.files.table_facts import TableFacts
from ofcl.data.files.tables import table_format
from ofcl.data.options import Damage, Reading
from ofcl.data.stored_rows import RowFile, StoredRows
from ofcl.errors import OfclError

MOST_WORDS = 100_000  # different words of a column that are kept


class NotInPieces(OfclError):
    """A table of texts or lists, which is read whole whatever its size."""


def is_large(path: Path, how: Reading) -> bool:
    """Says whether a table is read in pieces: a CSV file that is larger than the options allow.

    Args:
        path: The file.
        how: The options of reading.
    """
    return table_format(path) == "csv" and path.stat().st_size > how.in_memory


def look_through(path: Path) -> TableFacts:
    """Collects facts about all columns of a file: the first pass.

    Damaged rows are passed over; the second pass reports them.

    Args:
        path: The file.

    Raises:
        OfclError: The file has no rows.
    """
    found: dict[str, ColumnFacts] = {}
    for piece in csv_pieces(path, Damage("skip")):
        for name, cells in piece.columns.items():
            facts = found.setdefault(name, ColumnFacts(name, MOST_WORDS))
            before = len(facts.some)
            facts.add_cells(cells)
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
    for piece in csv_pieces(path, damage):
        for name in (meaning.label, *meaning.columns):
            if name not in piece.columns:
                raise OfclError(f"'{path.name}' has no column '{name}'")
        numbers, found = _read_piece(path.name, meaning, readers, piece, damage)
        file.append(numbers)
        labels += [known.setdefault(label, label) for label in found]
    words = tuple(tuple(reader.words) for reader in readers)
    return StoredRows(file, np.arange(file.rows), words), labels


def _read_piece(
    name: str,
    meaning: Meaning,
    readers: Sequence[_ColumnReader],
    piece: Piece,
    damage: Damage,
) -> tuple[np.ndarray, list[str]]:
    """Reads the rows of a piece; returns their numbers and labels, without damaged rows."""
    cells = piece.columns
    try:
        words, places = cells[meaning.label].different()
        names = [read_label(word, meaning.label) for word in words]
        numbers = np.stack([reader.read(cells[reader.code.name]) for reader in readers], 1)
        return numbers, [names[place] for place in places.tolist()]
    except ValueError:  # some row is damaged: row by row
        texts = {column: cells[column].texts() for column in (meaning.label, *meaning.columns)}
        kept, labels = [], []
        for place, line in enumerate(piece.lines):
            try:
                row = [reader.read_one(texts[reader.code.name][place]) for reader in readers]
                labels.append(read_label(texts[meaning.label][place], meaning.label))
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

    def read(self, cells: Cells) -> np.ndarray:
        """Reads cells; NaN stands for an empty one.

        Args:
            cells: The cells.

        Raises:
            ValueError: A cell cannot be used; the message says why.
        """
        if self.code.kind == "number":
            if self.code.decimal == "." and (numbers := self._numbers(cells)) is not None:
                return numbers
            return np.array([self._cell(cell) for cell in cells.texts()], dtype=np.float64)
        if len(self._known) > MOST_WORDS:
            self._known.clear()
        different, places = cells.different()
        found: np.ndarray = np.array([self._cell(cell) for cell in different], dtype=np.float64)
        looked_up: np.ndarray = found[places]
        return looked_up

    def read_one(self, cell: str) -> float:
        """Reads one cell; NaN stands for an empty one.

        Args:
            cell: The cell.

        Raises:
            ValueError: The cell cannot be used; the message says why.
        """
        return float(self.read(ListedCells([cell]))[0])

    def _numbers(self, cells: Cells) -> np.ndarray | None:
        """Reads numbers at little cost; None: a cell needs a closer look."""
        numbers = cells.numbers(gaps=not self._plain)
        if numbers is None:
            return None
        size = np.abs(numbers)
        fits = (size <= LARGEST).all() if self._plain else not (size > LARGEST).any()
        return numbers if fits else None

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
