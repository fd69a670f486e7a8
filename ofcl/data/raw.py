"""Raw data: samples as they are in their files, with labels.

Every source, named or a user's own, is read into a `Raw`. The costly steps, decoding images and
embedding texts, come after it (`preparation`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.files.labels import classes_of, ordered_labels
from ofcl.data.stored_rows import StoredRows
from ofcl.errors import OfclError

Content = Literal["image files", "images", "texts", "vectors", "table", "mixed table"]
"""The kind of samples.

    image files    paths of images
    images         pixels (n, channels, height, width) uint8
    texts          strings
    vectors        numbers that a model takes as they are
    table          numbers of columns with different scales, which are standardised
    mixed table    cells of columns that are not all numbers, or have gaps
"""

Samples = Sequence[Any] | np.ndarray

LabelledSamples = tuple[Samples, Sequence[str]]
"""Samples, and the label of each."""

NAMED_AT_MOST = 5  # classes in a message


@dataclass(frozen=True)
class Part:
    """The train, test or validation part of raw data.

    Args:
        samples: The samples, undecoded.
        y: The class of each sample.
    """

    samples: Samples
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: np.ndarray) -> Part:
        if isinstance(self.samples, np.ndarray | StoredRows):
            return Part(self.samples[rows], self.y[rows])
        return Part([self.samples[row] for row in rows], self.y[rows])


@dataclass(frozen=True)
class Raw:
    """Samples as they were read, with labels, before they are decoded or embedded.

    Args:
        name: The name of the dataset, for messages.
        content: The kind of its samples.
        train: The samples to learn from.
        labels: The label of each class.
        test: The samples to test on; None: a share of the train samples is split off.
        validation: The samples to validate on; None: the scenario sets train samples aside.
        mean: The mean of each channel of images; empty: measured from the train samples.
        std: The standard deviation of each channel; empty: measured from the train samples.
        notes: Lines that a user of these data should read, for example about samples left out.
        details: Facts about the files, shown by `ofcl data check`.
        columns: The columns of a table that make a sample; empty: the samples are from no table.
        label: The column of the labels in a table; None: the samples are from no table.
        codes: How the cells of a mixed table become numbers, column by column.
    """

    name: str
    content: Content
    train: Part
    labels: tuple[str, ...]
    test: Part | None = None
    validation: Part | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    label: str | None = None
    codes: tuple[ColumnCode, ...] = ()


def raw_from_labelled(
    name: str,
    content: Content,
    parts: Mapping[str, LabelledSamples],
    notes: tuple[str, ...] = (),
    details: Mapping[str, str] | None = None,
) -> Raw:
    """Makes raw data from samples with labels: finds the classes and numbers them.

    Args:
        name: The name of the dataset.
        content: The kind of the samples.
        parts: The samples and labels of `train`, and of `test` and `validation` if the data have
            these parts.
        notes: Lines that a user of these data should read.
        details: Facts about the files by name; None: there are none.
    """
    labels = ordered_labels(itertools.chain(*(names for _, names in parts.values())))
    numbered = {part: Part(x, classes_of(names, labels)) for part, (x, names) in parts.items()}
    return Raw(
        name,
        content,
        numbered["train"],
        labels,
        numbered.get("test"),
        numbered.get("validation"),
        notes=notes,
        details=details or {},
    )


def quote_labels(labels: Sequence[str], classes: np.ndarray) -> str:
    """Lists the labels of some classes for a message; after the first few, only their number.

    Args:
        labels: The label of each class of the dataset.
        classes: The classes to list.

    >>> quote_labels(["cat", "dog"], np.array([0, 1]))
    "'cat', 'dog'"
    """
    names = ", ".join(f"'{labels[int(c)]}'" for c in classes[:NAMED_AT_MOST])
    if len(classes) > NAMED_AT_MOST:
        return f"{names} and {len(classes) - NAMED_AT_MOST} more"
    return names


def check_same_shape(name: str, train: np.ndarray, test: np.ndarray) -> None:
    """Raises an error if train and test samples have different shapes.

    Args:
        name: The name of the data, for the message.
        train: The train samples (n, …).
        test: The test samples (n, …).
    """
    if train.shape[1:] != test.shape[1:]:
        raise OfclError(
            f"'{name}': train samples are {_shape(train)}, test samples {_shape(test)}; "
            "they must be alike"
        )


def _shape(x: np.ndarray) -> str:
    return " × ".join(map(str, x.shape[1:]))
