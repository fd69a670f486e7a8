"""The selection of the samples that a run uses: subsets, and a test part if the data have none.

Nothing here depends on a run's seed: all runs on a dataset use the same samples.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ofcl.data.options import Reading
from ofcl.data.raw import Part, Raw, quote_labels
from ofcl.errors import OfclError
from ofcl.seeds import numpy_generator


def train_and_test(raw: Raw, how: Reading) -> tuple[Part, Part]:
    """Selects the train and the test samples that a run uses, still undecoded.

    Args:
        raw: All samples of the dataset.
        how: The options of reading: the subset, and the share for testing if `raw` has no test
            part.

    Raises:
        OfclError: There are too few classes, or test classes that train lacks.
    """
    raw = subset(raw, how)
    check_classes(raw, raw.train.y, raw.test.y if raw.test else None, how.fewest_classes)
    if raw.test is not None:
        return raw.train, raw.test
    train, test = split(raw.train, how.test_share)
    return train, _subset_of(test, raw, "test", how.subset.test_head, how.subset.test_per_class)


def subset(raw: Raw, how: Reading) -> Raw:
    """Reduces the train part, and the test part if there is one, to the subset in the options.

    Args:
        raw: All samples of the dataset.
        how: The options of reading, with the subset.
    """
    wanted = how.subset
    train = _subset_of(raw.train, raw, "train", wanted.train_head, wanted.train_per_class)
    if raw.test is None:
        return replace(raw, train=train)
    test = _subset_of(raw.test, raw, "test", wanted.test_head, wanted.test_per_class)
    return replace(raw, train=train, test=test)


def _subset_of(part: Part, raw: Raw, name: str, head: int | None, per_class: int | None) -> Part:
    """Keeps the first `head` rows of a part; of these, `per_class` random ones of each class.

    Args:
        part: The part.
        raw: The dataset, for its name, on which the draw depends, and its classes.
        name: `train` or `test`, on which the draw depends too.
        head: The number of first rows; None: all.
        per_class: The number of samples of each class; None: all.
    """
    if head is not None:
        part = part[np.arange(min(head, len(part)))]
    if per_class is None:
        return part
    rows = []
    for c in range(len(raw.labels)):
        of_class = np.flatnonzero(part.y == c)
        drawn = numpy_generator(0, "subset", raw.name, name, c).permutation(of_class)[:per_class]
        rows.append(drawn)
    return part[np.sort(np.concatenate(rows))]


def split(part: Part, test_share: float) -> tuple[Part, Part]:
    """Splits a share of every class off for testing; a class of one sample stays in the train part.

    Args:
        part: The samples to be split.
        test_share: The share of each class that is for testing; at least one sample is, if the
            class has two.

    Returns:
        The train part and the test part.

    >>> train, test = split(Part(np.arange(11), np.array([0] * 10 + [1])), 0.2)
    >>> len(train), test.y.tolist()
    (9, [0, 0])
    """
    for_test = np.zeros(len(part), dtype=bool)
    for c in np.unique(part.y).tolist():
        rows = numpy_generator(0, "test split", c).permutation(np.flatnonzero(part.y == c))
        wanted = max(round(len(rows) * test_share), 1)
        for_test[rows[: min(wanted, len(rows) - 1)]] = True
    return part[np.flatnonzero(~for_test)], part[np.flatnonzero(for_test)]


def check_classes(
    raw: Raw, y_train: np.ndarray, y_test: np.ndarray | None, fewest: int = 2
) -> None:
    """Raises an error if data have too few classes, or test classes that train lacks.

    Args:
        raw: The dataset, for its name and labels.
        y_train: The class of each train sample.
        y_test: The class of each test sample; None: there is no test part yet.
        fewest: The number of classes that are needed: two, or one for a run that goes on.
    """
    present = np.unique(y_train)
    if len(present) < fewest:
        what = f"only the class '{raw.labels[int(present[0])]}'" if len(present) else "no samples"
        raise OfclError(f"'{raw.name}' has {what} to learn from; at least two classes are needed")
    if y_test is None:
        return
    never_trained = np.setdiff1d(y_test, present)
    if never_trained.size:
        raise OfclError(
            f"'{raw.name}': the test part has classes that the train part lacks "
            f"({quote_labels(raw.labels, never_trained)}), so nobody could ever learn them"
        )
