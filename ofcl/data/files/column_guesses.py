"""Guesses of the kind of each column of a table, from its name and its cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ofcl.data.files.cells import has_decimal_comma, is_number
from ofcl.data.files.column_codes import (
    BOOLEANS,
    ISO,
    ColumnCode,
    category_name,
    date_format,
    has_thousands,
    is_missing,
)

GUESS_ROWS = 1000  # cells, not empty, that are looked at
FEWEST_ROWS = 20  # with fewer, a column of different values may still be learned from
_IDENTIFIER = re.compile(r"(^|[_\s.-])(id|uuid|guid|index|key|nr|no|number|mrn)$", re.IGNORECASE)


@dataclass(frozen=True)
class Guess:
    """A guess of the kind of a column.

    Args:
        code: How its cells become numbers; None: it is left out.
        why: Why it is left out; empty: it is not.
        text: Whether its cells seem to be sentences.
    """

    code: ColumnCode | None
    why: str = ""
    text: bool = False


def guess_column(name: str, cells: Sequence[Any], *, named: bool = False) -> Guess:
    """Guesses what a column is.

    Args:
        name: The name of the column.
        cells: All its cells.
        named: Whether the user has named it, so that it is never left out.
    """
    present = [cell for cell in cells if not is_missing(cell)]
    some = present[:GUESS_ROWS]
    if not present:
        return Guess(None, "it is empty")
    if not named and _is_identifier(name, present):
        return Guess(None, "it looks like an identifier")
    if all(isinstance(cell, bool) for cell in some) or _all_words(some, BOOLEANS):
        return Guess(ColumnCode(name, "boolean"))
    if (number := _number(name, some)) is not None:
        return Guess(number)
    if (form := date_format(some)) is not None:
        return Guess(ColumnCode(name, "date", format=form, times=_has_times(some, form)))
    different = len({category_name(cell) for cell in present})
    is_text = _is_text(some)
    many = different > max(len(present) / 2, 2) and len(present) >= FEWEST_ROWS
    if not named and (is_text or many):
        why = "it is a text" if is_text else f"it has {different} different words"
        return Guess(None, why, text=is_text)
    return Guess(ColumnCode(name, "category"), text=is_text)


def _number(name: str, cells: Sequence[Any]) -> ColumnCode | None:
    """Returns the code of a column of numbers; None if most of its cells are none."""
    if _most(cells, is_number):
        return ColumnCode(name, "number")
    # One comma that cannot stand between thousands shows what all of them mean.
    decimals = any("," in str(cell) and not has_thousands(str(cell)) for cell in cells)
    if _most(cells, _has_comma) and decimals:
        return ColumnCode(name, "number", decimal=",")
    if _most(cells, lambda c: is_number(str(c).replace(",", "")) or has_thousands(str(c))):
        return ColumnCode(name, "number")
    return None


def _has_comma(cell: Any) -> bool:
    """Says whether a cell is a number with a decimal comma, perhaps with points as marks."""
    text = str(cell).strip()
    if has_decimal_comma(text) or is_number(text):
        return True
    whole, comma, decimals = text.rpartition(",")
    return bool(comma) and has_thousands(whole) and decimals.isdigit()


def _is_identifier(name: str, present: Sequence[Any]) -> bool:
    """Says whether a column only numbers or names the rows.

    Whole numbers or words that are all different, in a column that is called so; or whole numbers
    that count the rows.
    """
    if len(present) < FEWEST_ROWS:
        return False
    texts = [category_name(cell) for cell in present]
    if len(set(texts)) < len(texts):
        return False
    whole = all(text.lstrip("+-").isdigit() for text in texts)
    if _IDENTIFIER.search(name) and (whole or not any(map(is_number, texts))):
        return True
    if not whole:
        return False
    numbers = sorted(map(int, texts))
    return numbers[-1] - numbers[0] == len(numbers) - 1


def _is_text(cells: Sequence[Any]) -> bool:
    """Says whether cells seem to be sentences: four words or more, on average, mostly different."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) < len(cells):
        return False
    words = sum(len(text.split()) for text in texts) / len(texts)
    return words >= 4 and len(set(texts)) > len(texts) / 2


def _has_times(cells: Sequence[Any], form: str) -> bool:
    """Says whether dates have times of the day."""
    if form != ISO:
        return "%H" in form or "%I" in form
    return any(getattr(cell, "hour", None) is not None or ":" in str(cell) for cell in cells)


def _all_words(cells: Sequence[Any], words: set[str]) -> bool:
    return all(isinstance(cell, str) and cell.strip().lower() in words for cell in cells)


def _most(cells: Sequence[Any], holds: Callable[[Any], bool]) -> bool:
    """Says whether a condition holds for more than half of some cells."""
    return sum(map(holds, cells)) > len(cells) / 2
