"""Selection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ofcl.data.options import Reading
from ofcl.data.raw import Part, Raw, named
from ofcl.errors import OfclError
from ofcl.seeds import numpy_generator


def train_and_test(raw: Raw, how: Reading) -> tuple[Part, Part]:
    """The part of the data that is asked for, before anything costly is done with it."""
    raw = subset(raw, how)
    _check(raw, raw.train.y, raw.test.y if raw.test else None)
    if raw.test is not None:
        return raw.train, raw.test
    train, test = split(raw.train, how.test_share)
    return train, _part(test, raw, "test", how.subset.test_head, how.subset.test_per_class)


def subset(raw: Raw, how: Reading) -> Raw:
    """The part of the data that is asked for; the same whatever the run's seed."""
    wanted = how.subset
    train = _part(raw.train, raw, "train", wanted.train_head, wanted.train_per_class)
    if raw.test is None:
        return replace(raw, train=train)
    test = _part(raw.test, raw, "test", wanted.test_head, wanted.test_per_class)
    return replace(raw, train=train, test=test)


def _part(part: Part, raw: Raw, what: str, head: int | None, per_class: int | None) -> Part:
    if head is not None:
        part = part[np.arange(min(head, len(part)))]
    if per_class is None:
        return part
    rows = []
    for c in range(len(raw.labels)):
        of_class = np.flatnonzero(part.y == c)
        drawn = numpy_generator(0, "subset", raw.name, what, c).permutation(of_class)[:per_class]
        rows.append(drawn)
    return part[np.sort(np.concatenate(rows))]


def split(part: Part, test_share: float) -> tuple[Part, Part]:
    """A share of every class for testing; the same whatever the run's seed.

    A class of a single sample is all train.

    >>> train, test = split(Part(np.arange(11), np.array([0] * 10 + [1])), 0.2)
    >>> len(train), test.y.tolist()
    (9, [0, 0])
    """
    held = np.zeros(len(part), dtype=bool)
    for c in np.unique(part.y).tolist():
        rows = numpy_generator(0, "test split", c).permutation(np.flatnonzero(part.y == c))
        wanted = max(round(len(rows) * test_share), 1)
        held[rows[: min(wanted, len(rows) - 1)]] = True
    return part[np.flatnonzero(~held)], part[np.flatnonzero(held)]


def _check(raw: Raw, y_train: np.ndarray, y_test: np.ndarray | None) -> None:
    present = np.unique(y_train)
    if len(present) < 2:
        what = f"only the class '{raw.labels[int(present[0])]}'" if len(present) else "no samples"
        raise OfclError(f"'{raw.name}' has {what} to learn from; at least two classes are needed")
    if y_test is not None and (strange := np.setdiff1d(y_test, present)).size:
        raise OfclError(
            f"'{raw.name}': the test part has classes that the train part lacks "
            f"({named(raw.labels, strange)}), so nobody could ever learn them"
        )
