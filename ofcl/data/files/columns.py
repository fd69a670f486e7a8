"""What the columns of a table mean: which is the label, which the text, which are numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ofcl.data.files.labels import NotALabel, label_name
from ofcl.data.files.tables import Table, is_number
from ofcl.data.options import Reading
from ofcl.errors import OfclError

LABEL_NAMES = ("label", "labels", "class", "target", "y", "category")
TEXT_NAMES = ("text", "content", "sentence", "document")
LOOKED_AT = 100  # rows from which the meaning of columns is guessed
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Meaning:
    """How a row is read: its label, and a text, a list of numbers, or numbers of some columns."""

    label: str
    kind: Literal["text", "list", "numbers"]
    columns: tuple[str, ...]  # one, unless the kind is numbers

    def read(self, row: Mapping[str, Any]) -> tuple[Any, str]:
        """The sample and the label of a row; ValueError says what is wrong with it."""
        return self._sample(row), _label(row, self.label)

    def _sample(self, row: Mapping[str, Any]) -> Any:
        if self.kind == "numbers":
            return [_number(row, name) for name in self.columns]
        (name,) = self.columns
        value = row.get(name)
        if self.kind == "list":
            if not isinstance(value, list) or not all(map(is_number, value)) or not value:
                raise ValueError(f"column '{name}' is not a list of numbers")
            return [_finite(number, name) for number in value]
        if not isinstance(value, str) or not value.strip():
            kind = "empty" if value is None or value == "" or isinstance(value, str) else "no text"
            raise ValueError(f"column '{name}' is {kind}")
        if any("\ud800" <= letter <= "\udfff" for letter in value):  # JSON can write that
            raise ValueError(f"column '{name}' has half a character in it")
        return value


def find_meaning(table: Table, how: Reading) -> Meaning:
    """What the columns mean, by what was said and, for the rest, by their names and values."""
    label = how.label or _guess(table, LABEL_NAMES)
    if label is None:
        raise OfclError(
            f"'{table.name}' has the columns {', '.join(table.columns)}: which one is the label? "
            "Name it with --label"
        )
    table.column(label)
    if label == how.text or label in how.columns:
        raise OfclError(
            f"'{label}' is the label of '{table.name}'; it cannot be learnt from itself"
        )
    if how.text is not None:
        table.column(how.text)
        return Meaning(label, "text", (how.text,))
    if how.columns:
        for name in how.columns:
            table.column(name)
        return Meaning(label, "numbers", how.columns)
    # A column without a name is the number of the row, or comes of a comma at the end.
    rest = [name for name in table.columns if name and name != label]
    lists = [name for name in rest if _mostly(table.columns[name], lambda v: isinstance(v, list))]
    if len(lists) == 1:
        return Meaning(label, "list", (lists[0],))
    words = [name for name in rest if not _mostly(table.columns[name], is_number)]
    if rest and not words:
        return Meaning(label, "numbers", tuple(rest))
    if commas := [name for name in words if _mostly(table.columns[name], _has_comma)]:
        raise OfclError(
            f"'{table.name}': the numbers of column '{commas[0]}' have commas; write 1.5, not 1,5"
        )
    text = words[0] if len(words) == 1 and len(rest) == 1 else _guess(table, TEXT_NAMES)
    if text is None or text == label:
        has = f"columns that are not numbers ({', '.join(words)})" if words else "no other column"
        raise OfclError(
            f"'{table.name}' has, besides the label '{label}', {has}: name the column of the texts "
            "with --text, or those of the numbers with --set columns=a,b,…"
        )
    return Meaning(label, "text", (text,))


def _guess(table: Table, names: Sequence[str]) -> str | None:
    by_lower = {name.lower(): name for name in table.columns}
    return next((by_lower[name] for name in names if name in by_lower), None)


def _mostly(values: Sequence[Any], holds: Any) -> bool:
    seen = [value for value in values[:LOOKED_AT] if value not in (None, "")]
    return bool(seen) and sum(map(holds, seen)) > len(seen) / 2


def _has_comma(value: Any) -> bool:
    """Whether a value is a number but for its comma: 1,5 or 1,000."""
    return isinstance(value, str) and value.count(",") == 1 and is_number(value.replace(",", "."))


def _label(row: Mapping[str, Any], name: str) -> str:
    try:
        return label_name(row.get(name))
    except NotALabel as error:
        raise ValueError(f"column '{name}': {error}") from None


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError(f"column '{name}' is empty")
    if isinstance(value, bool):
        return float(value)
    if not is_number(value):
        raise ValueError(f"column '{name}' is not a number but {str(value)[:40]!r}")
    return _finite(value, name)


def _finite(value: Any, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"column '{name}' is {number}")
    if abs(number) > LARGEST:
        raise ValueError(f"column '{name}' is {number:g}, more than 32 bits hold")
    return number
