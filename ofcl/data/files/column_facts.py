"""Facts about the cells of a column, collected piece by piece, from which its kind is guessed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ofcl.data.files.cell_arrays import Cells
from ofcl.data.files.cells import has_decimal_comma, is_number
from ofcl.data.files.column_codes import category_name, is_missing

FIRST = 100  # cells that are kept as they are
GUESS_ROWS = 1000  # cells, not empty, that are looked at
FEWEST_ROWS = 20  # with fewer, a column of different values may still be learned from
_IDENTIFIER = re.compile(r"(^|[_\s.-])(id|uuid|guid|index|key|nr|no|number|mrn)$", re.IGNORECASE)


class ColumnFacts:
    """Facts about a column, which need little memory however long the column is.

    Args:
        name: The name of the column.
        most_words: The number of different words that are kept at most; None: all are. With a
            limit, words are counted only while the column may be one of categories.

    Attributes:
        first: Its first cells, as they are.
        some: Its first cells that are not empty.
        present: The number of cells that are not empty.
        numbers: The number of cells that are numbers, none of them missing.
        gaps: The number of empty cells.
        commas: The number of cells with a decimal comma.
        words: How often each category comes.
        overflowed: Whether there were more different words than are kept.
    """

    def __init__(self, name: str, most_words: int | None = None) -> None:
        self.name, self._most = name, most_words
        self.first: list[Any] = []
        self.some: list[Any] = []
        self.present = self.numbers = self.gaps = self.commas = 0
        self.words: Counter[str] = Counter()
        self.overflowed = False
        self._counts_words = True
        self._called_identifier = _IDENTIFIER.search(name) is not None
        self._whole, self._any_number, self._different = True, False, True
        self._seen: set[str] = set()
        self._least, self._largest = math.inf, -math.inf

    def add(self, cells: Sequence[Any]) -> None:
        """Takes in the next cells of the column.

        Args:
            cells: The cells.
        """
        self.first += cells[: FIRST - len(self.first)]
        present = [cell for cell in cells if not is_missing(cell)]
        self.some += present[: GUESS_ROWS - len(self.some)]
        self.present += len(present)
        self.gaps += len(cells) - len(present)
        others = [cell for cell in present if not is_number(cell)]
        self.numbers += len(present) - len(others)
        self.commas += sum(map(has_decimal_comma, others))
        if not (self._counts_words or self._may_be_identifier()):
            return
        texts = [category_name(cell) for cell in present]
        if self._counts_words:
            self.words.update(texts)
            self._limit_words()
        if self._may_be_identifier():
            self._look_for_identifier(texts)

    def add_cells(self, cells: Cells) -> None:
        """Takes in the next cells of the column, each different one once where that is enough.

        Args:
            cells: The cells.
        """
        full = len(self.first) >= FIRST and len(self.some) >= GUESS_ROWS
        if not full or self._may_be_identifier():
            self.add(cells.texts())
            return
        may_be_numbers = not self._counts_words and self.numbers > self.present / 2
        numbers = cells.numbers(gaps=True) if may_be_numbers else None
        if numbers is not None:
            gaps = int(np.isnan(numbers).sum())
            self.gaps += gaps
            self.present += len(cells) - gaps
            self.numbers += len(cells) - gaps
            return
        different, places = cells.different()
        for cell, count in zip(different, np.bincount(places).tolist(), strict=True):
            self._add_often(cell, count)
        self._limit_words()

    def _add_often(self, cell: Any, count: int) -> None:
        """Takes in a cell that comes several times, when the first cells have been looked at."""
        missing = is_missing(cell)
        self.gaps += count * missing
        self.present += count * (not missing)
        if is_number(cell):
            self.numbers += count * (not missing)
        elif has_decimal_comma(cell):
            self.commas += count
        if self._counts_words and not missing:
            self.words[category_name(cell)] += count

    def stop_counting(self) -> None:
        """Counts words no longer: the column is none of categories."""
        self._counts_words = False
        self.words.clear()

    def _limit_words(self) -> None:
        """Gives up counting if there are too many different words."""
        if self._most is not None and len(self.words) > self._most:
            self.overflowed = True
            self.stop_counting()

    def _may_be_identifier(self) -> bool:
        """Says whether the cells so far may only number or name the rows."""
        named = self._called_identifier and not self._any_number
        return self._different and (self._whole or named)

    def _look_for_identifier(self, texts: list[str]) -> None:
        """Looks whether cells are different from all before, and whole numbers.

        Args:
            texts: The cells that are not empty, as texts.
        """
        if self._most is None or len(self._seen) <= self._most:
            before = len(self._seen)
            self._seen.update(texts)
            self._different = len(self._seen) == before + len(texts)
        # Cells beyond the limit are not looked up: so many different ones name the rows.
        self._whole = self._whole and all(text.lstrip("+-").isdigit() for text in texts)
        self._any_number = self._any_number or any(map(is_number, texts))
        if self._whole and texts:
            numbers = [int(text) for text in texts]
            self._least = min(self._least, *numbers)
            self._largest = max(self._largest, *numbers)
        if not self._may_be_identifier():
            self._seen = set()

    @property
    def identifies(self) -> bool:
        """Whether the column only numbers or names the rows.

        Whole numbers or words that are all different, in a column that is called so; or whole
        numbers that count the rows.
        """
        if self.present < FEWEST_ROWS or not self._different:
            return False
        if self._called_identifier and (self._whole or not self._any_number):
            return True
        return self._whole and self._largest - self._least == self.present - 1
