"""A feed of any Python iterable: a list, a generator, a data loader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from ofcl.data.live.sample import Sample, StreamError, unusable
from ofcl.state import State

Items = Iterable[Any]
"""Items: (x, y) or (x, y, task), of one sample or of a batch; None: no sample has come yet."""


class IteratorFeed:
    """A feed of the samples of an iterable.

    When it is opened again, an iterable that starts anew, such as a list, skips the samples that
    were learned already. An iterator continues with its next item.

    Args:
        items: The iterable; or a function that takes a number n and returns an iterable without the
            first n samples.
    """

    def __init__(self, items: Items | Callable[[int], Items]) -> None:
        self._items = items
        self.rereads = callable(items) or iter(items) is not items
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """Yields the samples that were not learned yet: a list for each item; [] for an item None.

        Args:
            taken: For each source, the number of its rows that were learned already; the only
                source is "".

        Raises:
            StreamError: The iterable has fewer samples than were learned.
        """
        start = taken.get("", 0)
        items = self._items(start) if callable(self._items) else self._items
        starts_anew = self.rereads and not callable(self._items)
        row = 0 if starts_anew else start
        for item in items:
            samples = [] if item is None else samples_of_item(item, row)
            row += len(samples)
            fresh = [sample for sample in samples if sample.row >= start]
            if fresh or not samples:
                yield fresh
        if row < start:
            raise StreamError(
                f"there are {row} samples, but {start} were learned; for what comes behind those "
                "give an iterator"
            )


def samples_of_item(item: Any, row: int) -> list[Sample]:
    """Returns the samples in an item of an iterable.

    Args:
        item: (x, y) or (x, y, task), of one sample or of a batch. A batch has one task for all its
            samples, or one for each.
        row: The number of the first of these samples among all of the iterable, counted from 0.

    Returns:
        The samples. If the item has another form, one sample that says why it cannot be used.
    """
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        problem = f"a stream brings (x, y) or (x, y, task), not a {type(item).__name__}"
        return [unusable("", row, problem)]
    x, y, task = (*item, None)[:3]
    y, task = (v.tolist() if isinstance(v, Tensor | np.ndarray) else v for v in (y, task))
    if not isinstance(y, list | tuple):
        return [Sample(x, y, task, "", row)]
    tasks = task if isinstance(task, list | tuple) else [task] * len(y)
    if not len(x) == len(y) == len(tasks):
        problem = f"a batch of {len(x)} samples with {len(y)} labels and {len(tasks)} tasks"
        return [unusable("", row, problem)]
    return [Sample(*one, "", row + n) for n, one in enumerate(zip(x, y, tasks, strict=True))]
