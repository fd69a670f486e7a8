"""Labels as people write them, words or numbers, and the classes that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from ofcl.errors import OfclError

_WHOLE = re.compile(r"[+-]?\d+(\.0*)?")

FEWEST_ROWS = 20  # with fewer rows, a column of different values may still be the label


class NotALabel(ValueError):
    """A value that cannot name a class."""


def label_name(value: Any) -> str:
    """Turns a label of any type into a word.

    Args:
        value: A word, or a whole number of any type.

    Raises:
        NotALabel: The value cannot name a class; the message says why.

    >>> label_name(" cat "), label_name(np.int64(3)), label_name(2.0), label_name(True)
    ('cat', '3', '2', 'true')
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:  # not replaced: two names could become one
            raise NotALabel(f"the label {value!r} is not UTF-8") from None
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        if not float(value).is_integer():  # NaN and infinity are none either
            raise NotALabel(f"{value} is a measure, not the name of a class")
        return str(int(float(value)))
    if not isinstance(value, str):
        kind = "missing" if value is None else f"a {type(value).__name__}"
        raise NotALabel(f"the label is {kind}")
    return _word(value.strip())


def _word(name: str) -> str:
    """Returns a word as it is if it can be a label; raises `NotALabel` if it cannot."""
    if not name:
        raise NotALabel("the label is empty")
    if name.lower() == "nan":  # NumPy's word for a missing value among words
        raise NotALabel("the label is missing (nan)")
    if len(name.splitlines()) > 1 or "\0" in name:
        raise NotALabel(f"the label {name[:40]!r} has a line break or a zero byte in it")
    if any("\ud800" <= letter <= "\udfff" for letter in name):
        raise NotALabel(f"the label {name[:40]!r} has half a character in it")
    return name


def whole_numbers(names: Sequence[str]) -> list[str]:
    """Writes labels of a column of whole numbers in one way: 1 and 1.0 are one class.

    Args:
        names: The label of each row.

    >>> whole_numbers(["1.0", "2", "1"]), whole_numbers(["1.0", "1.5"])
    (['1', '2', '1'], ['1.0', '1.5'])
    """
    if not all(_WHOLE.fullmatch(name) for name in set(names)):
        return list(names)
    return [name.partition(".")[0] for name in names]


def ordered_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Lists the different labels in order: by number if all are numbers, else by name.

    Args:
        names: The label of each sample.

    >>> ordered_labels(["10", "9", "9"]), ordered_labels(["b", "10", "a"])
    (('9', '10'), ('10', 'a', 'b'))
    """
    different = sorted(set(names))  # first by name, as 1 and 01 are one number
    try:
        return tuple(sorted(different, key=int))
    except ValueError:
        return tuple(different)


def classes_of(names: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """Returns the class of each sample: the index of its label in the list of labels.

    Args:
        names: The label of each sample.
        labels: The label of each class.
    """
    class_of_label = {label: i for i, label in enumerate(labels)}
    return np.array([class_of_label[name] for name in names], dtype=np.int64)


def check_labels(what: str, names: Sequence[str]) -> None:
    """Raises an error if most labels are different from each other: then they are not labels.

    Args:
        what: The name of the column or array that they come from, for the message.
        names: The label of each sample.
    """
    different = len(set(names))
    if len(names) >= FEWEST_ROWS and different > len(names) / 2:
        raise OfclError(
            f"{what} has {different} different values in {len(names)} samples: it does not look "
            "like a label; name the right column with --label"
        )
