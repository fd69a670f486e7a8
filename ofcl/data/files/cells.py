"""Cells of a table: reads the number, text or label in a cell.

If a cell cannot be used, the readers raise a ValueError with a message for the user.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ofcl.data.files.labels import NotALabel, label_name

LARGEST = float(np.finfo(np.float32).max)


def is_number(value: Any) -> bool:
    """Says whether a value is a number or a text that Python reads as one; truth values are not.

    Args:
        value: The value of a cell.
    """
    if isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:  # an integer of more than 308 digits
        return True
    except (TypeError, ValueError):
        return False
    return True


def has_decimal_comma(value: Any) -> bool:
    """Says whether a text is a number with a comma, such as 1,5 or 1,000.

    Args:
        value: The value of a cell.
    """
    return isinstance(value, str) and value.count(",") == 1 and is_number(value.replace(",", "."))


def read_number(value: Any, column: str) -> float:
    """Reads the number in a cell.

    Args:
        value: The value of the cell.
        column: The name of its column, for the message.

    Raises:
        ValueError: The cell is empty, or has no number that fits into 32 bits.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise ValueError(f"column '{column}' is empty")
    if isinstance(value, bool):
        return float(value)
    if not is_number(value):
        raise ValueError(f"column '{column}' is not a number but {str(value)[:40]!r}")
    return finite_number(value, column)


def read_number_list(value: Any, column: str) -> list[float]:
    """Reads the list of numbers in a cell.

    Args:
        value: The value of the cell.
        column: The name of its column, for the message.

    Raises:
        ValueError: The cell has no list of numbers that fit into 32 bits, or an empty list.
    """
    if not isinstance(value, list) or not all(map(is_number, value)) or not value:
        raise ValueError(f"column '{column}' is not a list of numbers")
    return [finite_number(number, column) for number in value]


def read_text(value: Any, column: str) -> str:
    """Reads the text in a cell.

    Args:
        value: The value of the cell.
        column: The name of its column, for the message.

    Raises:
        ValueError: The cell is empty, or has no text.
    """
    if not isinstance(value, str) or not value.strip():
        kind = "empty" if value is None or isinstance(value, str) else "no text"
        raise ValueError(f"column '{column}' is {kind}")
    if any("\ud800" <= letter <= "\udfff" for letter in value):  # JSON can write that
        raise ValueError(f"column '{column}' has half a character in it")
    return value


def read_label(value: Any, column: str) -> str:
    """Reads the label in a cell, a word or a number, as a word.

    Args:
        value: The value of the cell.
        column: The name of its column, for the message.

    Raises:
        ValueError: The value cannot be a label.
    """
    try:
        return label_name(value)
    except NotALabel as error:
        raise ValueError(f"column '{column}': {error}") from None


def finite_number(value: Any, column: str) -> float:
    """Turns a number into a float; raises a ValueError if it is not finite in 32 bits.

    Args:
        value: A number, or a text that Python reads as one.
        column: The name of the column, for the message.
    """
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"column '{column}' is {number}")
    if abs(number) > LARGEST:
        raise ValueError(f"column '{column}' is {number:g}, more than 32 bits hold")
    return number
