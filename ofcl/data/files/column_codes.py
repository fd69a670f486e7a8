"""Codes of columns: how the cells of a column become numbers that a network can learn from.

    number     the number; a gap becomes the column's mean
    boolean    1 for true, 0 for false, ½ for a gap
    category   one place for each frequent category, one for all others
    date       days since 1970, and the place in the year; with times, also the time of day
    (a time)   a date without days: the part of the day, and the place in the day

A column that has gaps gets one more number, which is 1 where the cell is empty.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ofcl.data.files.cells import finite_number
from ofcl.data.files.dates import is_clock, read_date

MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-", "--", ".", "#n/a", "#na", "<na>"}
"""Words, in lower case, that stand for a missing value."""

TRUE = {"true", "yes", "y", "t", "ja", "j", "wahr", "oui", "vrai", "si", "sí", "on"}
FALSE = {"false", "no", "n", "f", "nein", "falsch", "non", "faux", "off"}
BOOLEANS = TRUE | FALSE

MOST_CATEGORIES = 50  # places of a column; rarer categories share one
CATEGORIES_SHOWN = 5  # where a column is described
FEWEST_ROWS = 2  # of a category that gets a place of its own

_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?P<mark>[,. '\u00a0\u202f])\d{3}(?:(?P=mark)\d{3})*")
_SPACES = str.maketrans("", "", " '\u00a0\u202f")


@dataclass(frozen=True)
class ColumnCode:
    """The code of one column.

    Args:
        name: The name of the column.
        kind: The kind of its cells.
        decimal: The mark before the decimals of a number.
        format: The format of dates or times, as `strptime` takes it; `iso`: any of ISO 8601.
        times: Whether the dates have times of the day.
        gaps: Whether empty cells get a number of their own that marks them.
        fill: The number that stands for an empty cell.
        categories: The categories with a place of their own.
    """

    name: str
    kind: Literal["number", "boolean", "category", "date"]
    decimal: Literal[".", ","] = "."
    format: str = ""
    times: bool = False
    gaps: bool = False
    fill: float = 0.0
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers a cell becomes."""
        base = {"number": 1, "boolean": 1, "date": 1 + 2 * len(self.cycles)}
        return base.get(self.kind, len(self.categories) + 1) + self.gaps

    @property
    def cycles(self) -> dict[str, float]:
        """The periods, in days, in which a date has a place on a circle."""
        year = {} if is_clock(self.format) else {"year": 365.2425}
        return {**year, "day": 1.0} if self.times else year

    def read(self, cell: Any) -> float | str | None:
        """Reads a cell.

        Args:
            cell: The value of the cell, a text or already of its type.

        Returns:
            A number, the name of a category, or None for an empty cell.

        Raises:
            ValueError: The cell is not of this kind; the message says what is wrong with it.
        """
        if is_missing(cell):
            return None
        if self.kind == "category":
            return category_name(cell)
        if self.kind == "boolean":
            return _read_boolean(cell, self.name)
        if self.kind == "date":
            return read_date(cell, self.format, self.name)
        return read_decimal(cell, self.decimal, self.name)

    def fitted(self, values: Sequence[Any]) -> ColumnCode:
        """Returns the code with the gaps, the fill or the categories that values show.

        Args:
            values: Cells of the train rows, as `read` has read them.
        """
        present = [value for value in values if value is not None]
        gaps = len(present) < len(values)
        if self.kind == "category":
            return self.with_categories(Counter(present), gaps)
        return self.with_fill(float(np.mean(present)) if present else 0.0, gaps)

    def with_categories(self, counts: Mapping[str, int], gaps: bool) -> ColumnCode:
        """Returns the code with places for the most frequent categories.

        Args:
            counts: How many train rows each category has.
            gaps: Whether some train rows have none.
        """
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        frequent = [name for name, n in ordered if n >= FEWEST_ROWS][:MOST_CATEGORIES]
        return replace(self, gaps=gaps, categories=tuple(sorted(frequent)))

    def with_fill(self, mean: float, gaps: bool) -> ColumnCode:
        """Returns the code with the number that stands for an empty cell.

        Args:
            mean: The mean of the train rows' cells.
            gaps: Whether some train rows have none.
        """
        return replace(self, gaps=gaps, fill=0.5 if self.kind == "boolean" else mean)

    def encode(self, values: Sequence[Any]) -> np.ndarray:
        """Turns cells into numbers (n, width).

        Args:
            values: The cells, as `read` has read them.
        """
        if self.kind == "category":
            places = {name: place for place, name in enumerate(self.categories)}
            values = [None if v is None else places.get(v, len(places)) for v in values]
        return self.encode_array(
            np.array([np.nan if v is None else v for v in values], dtype=float)
        )

    def encode_array(self, values: np.ndarray) -> np.ndarray:
        """Turns numbers into the numbers (n, width) of a network's input.

        Args:
            values: The cells (n,), NaN for empty ones; of categories, their places.
        """
        missing = np.isnan(values)
        if self.kind == "category":
            numbers = np.zeros((len(values), len(self.categories) + 1))
            rows = np.flatnonzero(~missing)
            numbers[rows, values[rows].astype(int)] = 1
        else:
            numbers = np.where(missing, self.fill, values).reshape(-1, 1)
            if self.kind == "date":
                numbers = np.concatenate([numbers, *self._cycles(numbers)], axis=1)
        return np.concatenate([numbers, missing[:, None]], axis=1) if self.gaps else numbers

    def _cycles(self, days: np.ndarray) -> list[np.ndarray]:
        """Returns the place in each cycle, such as the year, as points on a circle."""
        angles = [2 * math.pi * days / period for period in self.cycles.values()]
        return [turn(angle) for angle in angles for turn in (np.sin, np.cos)]

    def scaled(self) -> np.ndarray:
        """Says for each of its numbers whether it is standardised; marks and places are not."""
        scaled = np.zeros(self.width, dtype=bool)
        scaled[0] = self.kind in ("number", "date")
        return scaled

    def words(self) -> str:
        """Describes the code in words, without the column's name."""
        names = ", ".join(self.categories[:CATEGORIES_SHOWN])
        more = ", …" if len(self.categories) > CATEGORIES_SHOWN else ""
        moment = f"a date{' and time' if self.times else ''}"
        kind = {
            "number": "a number" if self.decimal == "." else "a number with a decimal comma",
            "boolean": "true or false",
            "date": "a time of the day" if is_clock(self.format) else moment,
            "category": f"{len(self.categories)} categories ({names}{more})",
        }[self.kind]
        return f"{kind}{', gaps are marked' if self.gaps else ''}"


def is_missing(cell: Any) -> bool:
    """Says whether a cell is empty, or has a word that stands for a missing value.

    Args:
        cell: The value of the cell.

    >>> [is_missing(cell) for cell in (None, " ", "NA", "n/a", float("nan"), 0, "0", "none at all")]
    [True, True, True, True, True, False, False, False]
    """
    if cell is None:
        return True
    if isinstance(cell, float):
        return math.isnan(cell)
    return isinstance(cell, str) and cell.strip().lower() in MISSING


def category_name(cell: Any) -> str:
    """Returns the name of a category: the cell as a text; 1 and 1.0 are one.

    Args:
        cell: The value of the cell.
    """
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return " ".join(str(cell).split())


def read_decimal(cell: Any, decimal: str, column: str) -> float:
    """Reads a number that may have marks between its thousands.

    Args:
        cell: The value of the cell.
        decimal: The mark before the decimals: a point or a comma.
        column: The name of the column, for the message.

    Raises:
        ValueError: It is not a number of 32 bits.

    >>> read_decimal("1,234.5", ".", "a"), read_decimal("1.234,5", ",", "a")
    (1234.5, 1234.5)
    """
    if isinstance(cell, str):
        text = cell.strip().translate(_SPACES)
        if decimal == ",":
            text = text.replace(".", "").replace(",", ".")
        elif "," in text and has_thousands(text.split(".")[0]):
            text = text.replace(",", "")
        try:
            return finite_number(float(text), column)
        except ValueError as error:
            if "could not convert" in str(error):
                problem = f"column '{column}' is not a number but {cell[:40]!r}"
                raise ValueError(problem) from None
            raise
    return finite_number(cell, column)


def has_thousands(text: str) -> bool:
    """Says whether a text is a whole number with marks between its thousands.

    Args:
        text: The text.

    >>> [has_thousands(text) for text in ("1,234", "12,34", "1.234.567", "1234", "0,123")]
    [True, False, True, False, False]
    """
    return _THOUSANDS.fullmatch(text.strip()) is not None


def _read_boolean(cell: Any, column: str) -> float:
    """Reads a truth value as 1 or 0."""
    if isinstance(cell, bool | int | float) and cell in (0, 1):
        return float(cell)
    word = str(cell).strip().lower()
    if word not in BOOLEANS:
        raise ValueError(f"column '{column}' is not true or false but {str(cell)[:40]!r}")
    return float(word in TRUE)
