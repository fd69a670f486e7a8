"""Guesses of the kind of each column of a table, from its name and its cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ofcl.data.files.cells import has_decimal_comma, is_number
from ofcl.data.files.column_codes import BOOLEANS, ColumnCode, has_thousands
from ofcl.data.files.column_facts import FEWEST_ROWS, ColumnFacts
from ofcl.data.files.dates import ISO, date_format


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


def guess_column(facts: ColumnFacts, *, named: bool = False) -> Guess:
    """Guesses what a column is.

    Args:
        facts: The facts about its cells.
        named: Whether the user has named it, so that it is never left out.
    """
    name, some = facts.name, facts.some
    if not facts.present:
        return Guess(None, "it is empty")
    if not named and facts.identifies:
        return Guess(None, "it looks like an identifier")
    if (code := guess_plain(name, some)) is not None:
        return Guess(code)
    different = len(facts.words)
    is_text = _is_text(some)
    many = different > max(facts.present / 2, 2) and facts.present >= FEWEST_ROWS
    if not named and (is_text or many or facts.overflowed):
        why = "it is a text" if is_text else f"it has {different} different words"
        if facts.overflowed and not is_text:
            why = "it has too many different words"
        return Guess(None, why, text=is_text)
    return Guess(ColumnCode(name, "category"), text=is_text)


def guess_plain(name: str, some: Sequence[Any]) -> ColumnCode | None:
    """Returns the code of a column of truth values, numbers, dates or times; None if it has words.

    Args:
        name: The name of the column.
        some: Its first cells that are not empty.
    """
    if all(isinstance(cell, bool) for cell in some) or _all_words(some, BOOLEANS):
        return ColumnCode(name, "boolean")
    if (number := _number(name, some)) is not None:
        return number
    if (form := date_format(some)) is not None:
        return ColumnCode(name, "date", format=form, times=_has_times(some, form))
    return None


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
