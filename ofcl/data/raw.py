"""Data as they lie there: every source, named or somebody's own, is read into a `Raw`.

What is costly, decoding images and embedding texts, comes after it (`making.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ofcl.data.files.labels import places, vocabulary
from ofcl.errors import OfclError

Content = Literal["image files", "images", "texts", "vectors", "table"]
"""Paths of images, images (n, channels, height, width) uint8, texts, numbers as they are, numbers
of columns that have different scales."""

Samples = Sequence[Any] | np.ndarray

NAMED_AT_MOST = 5  # classes that a message names


@dataclass(frozen=True)
class Part:
    """Samples and the places of their labels."""

    samples: Samples
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: np.ndarray) -> Part:
        if isinstance(self.samples, np.ndarray):
            return Part(self.samples[rows], self.y[rows])
        return Part([self.samples[row] for row in rows], self.y[rows])


@dataclass(frozen=True)
class Raw:
    """Samples as they were found, with labels; the costly steps are still to come."""

    name: str
    content: Content
    train: Part
    labels: tuple[str, ...]
    test: Part | None = None  # None: to be split from train
    validation: Part | None = None  # None: to be split from train by the scenario
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)  # for those who look at the data


Found = tuple[Samples, Sequence[str]]
"""Samples, and the names of their labels."""


def gather(
    name: str,
    content: Content,
    parts: Mapping[str, Found],
    notes: tuple[str, ...] = (),
    details: Mapping[str, str] | None = None,
) -> Raw:
    """Makes data of named labels: `parts` are train and, where there are any, test, validation."""
    labels = vocabulary(itertools.chain(*(names for _, names in parts.values())))
    made = {part: Part(x, places(names, labels)) for part, (x, names) in parts.items()}
    return Raw(
        name,
        content,
        made["train"],
        labels,
        made.get("test"),
        made.get("validation"),
        notes=notes,
        details=details or {},
    )


def named(labels: Sequence[str], places: np.ndarray) -> str:
    """Some classes by name, for a message.

    >>> named(["cat", "dog"], np.array([0, 1]))
    "'cat', 'dog'"
    """
    names = ", ".join(f"'{labels[int(c)]}'" for c in places[:NAMED_AT_MOST])
    return names + (
        f" and {len(places) - NAMED_AT_MOST} more" if len(places) > NAMED_AT_MOST else ""
    )


def check_alike(name: str, train: np.ndarray, test: np.ndarray) -> None:
    """Refuses parts whose samples have different shapes."""
    if train.shape[1:] != test.shape[1:]:
        raise OfclError(
            f"'{name}': train samples are {_shape(train)}, test samples {_shape(test)}; "
            "they must be alike"
        )


def _shape(x: np.ndarray) -> str:
    return " × ".join(map(str, x.shape[1:]))
