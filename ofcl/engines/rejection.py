"""Checks of values that somebody else has sent; each raises `Rejected` with the reason."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ofcl.data.files.labels import label_name
from ofcl.errors import OfclError, one_line
from ofcl.models.head import BIAS, COMPANIONS, WEIGHT
from ofcl.models.prototypes import SUMMED, SUMS
from ofcl.state import Tensors

LONGEST_LABEL = 200  # characters
MOST_TESTED = 10**9  # test samples that a client may have


class Rejected(OfclError):
    """Raised for an answer that cannot be right; the message says why.

    Args:
        why: The reason. It may quote what came, so it becomes one line without control characters.
    """

    def __init__(self, why: str) -> None:
        super().__init__(one_line(why))


def check_label(label: Any, of: str = "a class") -> None:
    """Rejects a text that cannot be the name of a class, or of something else.

    Args:
        label: The value that came in place of a label.
        of: Whose name it is to be.

    Raises:
        Rejected: If it is not a text, is too long, or has characters that a label cannot have.
    """
    try:
        good = isinstance(label, str) and len(label) <= LONGEST_LABEL and label_name(label) == label
        good = good and label.isprintable()  # it reaches the operator's screen
    except ValueError:
        good = False
    if not good:
        raise Rejected(f"{str(label)[:40]!r} cannot be the name of {of}")


def check_hits(hits: Any, classes: int = 10**9) -> None:
    """Rejects impossible counts of right predictions.

    Args:
        hits: The value that came as counts: for each task, rows of class, right predictions and
            samples.
        classes: How many rows a task may have.
    """
    try:
        if any(len(task) > classes for task in hits):
            raise Rejected(f"its counts are of more than {classes} classes")
        rows = [row for task in hits for row in task]
        good = all(len(row) == 3 and 0 <= row[1] <= row[2] for row in rows)
        good = good and all(type(number) is int for row in rows for number in row)
    except TypeError:
        good = False
    if not good:
        raise Rejected("its counts of right predictions cannot be")


def check_confusions(confusions: Any, classes: int) -> None:
    """Rejects impossible cells of a confusion matrix.

    Args:
        confusions: The value that came as cells: rows of class, predicted class and samples.
        classes: How many classes there are.
    """
    if not isinstance(confusions, list) or len(confusions) > classes**2:
        raise Rejected("its confusions cannot be")
    for row in confusions:
        if not isinstance(row, list) or len(row) != 3:
            raise Rejected("its confusions cannot be")
        for place in row[:2]:
            check_count("place of a class", place, classes - 1)
        check_count("number of samples", row[2], 10**9)


def check_same(what: str, given: Any, wanted: Any) -> None:
    """Rejects a value that is not the expected one, or of another type.

    Args:
        what: The name of the value, for the message.
        given: The value that came.
        wanted: The expected value.
    """
    if type(given) is not type(wanted) or given != wanted:
        raise Rejected(f"its {what} is {given!r}, not {wanted!r}")


def check_count(what: str, value: Any, most: int, least: int = 0) -> None:
    """Rejects a value that is not a whole number between two bounds.

    Args:
        what: The name of the count, for the message.
        value: The value that came.
        most: The largest possible count.
        least: The smallest possible count.
    """
    if type(value) is not int or not least <= value <= most:
        raise Rejected(f"its {what} is {value!r}; expected {least} to {most}")


def check_feature_sums(sums: Any, classes: int, features: int, remembered: int) -> None:
    """Rejects sums of a memory's features that cannot be (`ofcl.models.prototypes`).

    Features have length 1 or 0, so the sum of n of them is no longer than n.

    Args:
        sums: The value that came as sums and counts by name.
        classes: How many classes there are at most.
        features: How many numbers a sample's features have.
        remembered: How many samples a client may remember.
    """
    if not isinstance(sums, dict) or sums.keys() != {SUMS, SUMMED}:
        raise Rejected("its survey has not the tensors that were asked for")
    of_class, counts = sums[SUMS], sums[SUMMED]
    check_finite(SUMS, of_class)
    check_finite(SUMMED, counts)
    if of_class.dtype != torch.float or counts.dtype != torch.long:
        raise Rejected("its sums or counts of features are of another type")
    if counts.dim() != 1 or not 0 < len(counts) <= classes:
        raise Rejected(f"'{SUMMED}' has the shape {tuple(counts.shape)}")
    if of_class.shape != (len(counts), features):
        raise Rejected(f"'{SUMS}' has the shape {tuple(of_class.shape)}")
    if bool((counts < 0).any()) or int(counts.clamp(max=remembered + 1).sum()) > remembered:
        raise Rejected(f"its counts of features cannot be; expected {remembered} at most in all")
    if bool((of_class.norm(dim=1) > counts * (1 + 1e-3)).any()):
        raise Rejected("a sum of features is longer than its samples allow")


def check_finite(name: str, tensor: Any) -> None:
    """Rejects a tensor with values that are not finite, and anything that is no tensor.

    Args:
        name: The name of the tensor.
        tensor: The value that came in its place.
    """
    if not isinstance(tensor, Tensor) or not _is_finite(tensor):
        raise Rejected(f"'{name}' has values that are not finite")


def _is_finite(tensor: Tensor) -> bool:
    """Tells whether all values are finite; first by their sum, which is one number."""
    if not tensor.dtype.is_complex and math.isfinite(tensor.sum()):
        return True  # one value that is not would have spoilt the sum
    return bool(tensor.isfinite().all())  # a sum of large values may be too large


def check_tensors(state: Tensors, model: Tensors, classes: int) -> None:
    """Rejects tensors of other names, types or shapes than a model's, and values not finite.

    Args:
        state: The tensors that came.
        model: The tensors of such a model.
        classes: How many outputs the head may have; it may always have as many as the model's.
    """
    if state.keys() != model.keys():
        odd = sorted(state.keys() ^ model.keys())
        raise Rejected(f"its tensors are others: '{odd[0]}' is missing or too many")
    for name, wanted in model.items():
        tensor = state[name]
        if not isinstance(tensor, Tensor) or tensor.dtype != wanted.dtype:
            raise Rejected(f"'{name}' is of another type")
        if not _fits(name, tensor, wanted, classes):
            shapes = f"{tuple(tensor.shape)}, not {tuple(wanted.shape)}"
            raise Rejected(f"'{name}' has the shape {shapes}")
        check_finite(name, tensor)
    rows = {len(state[name]) for name in (WEIGHT, BIAS, *COMPANIONS) if name in state}
    if len(rows) > 1:
        raise Rejected("the parts of its head do not fit together")


def _fits(name: str, tensor: Tensor, wanted: Tensor, classes: int) -> bool:
    """Tells whether a tensor has a possible shape.

    Args:
        name: The name of the tensor. Those of the head may have any number of outputs up to the
            number of classes.
        tensor: The tensor that came.
        wanted: The model's tensor of this name, whose shape all others must have.
        classes: The number of classes.
    """
    if name not in (WEIGHT, BIAS, *COMPANIONS):
        return tensor.shape == wanted.shape
    # The sender may not know the newest classes yet, or be the first to meet one.
    alike = tensor.dim() == wanted.dim() and tensor.shape[1:] == wanted.shape[1:]
    return alike and 0 < len(tensor) <= max(classes, len(wanted))
