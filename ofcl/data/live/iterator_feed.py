"""Iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from ofcl.data.live.sample import Sample, StreamError
from ofcl.state import State

Items = Iterable[Any]
"""What an iterator brings: (x, y) or (x, y, task), of a sample or a batch; None: nothing now."""


class IteratorFeed:
    """Samples of any iterable, or of a function that opens one behind so many samples.

    What can be gone through again, such as a list, is opened behind what was learned; an iterator
    goes on with what it brings next.
    """

    def __init__(self, items: Items | Callable[[int], Items]) -> None:
        self._items = items
        self.rereads = callable(items) or iter(items) is not items
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """The samples, those of an item at once."""
        start = taken.get("", 0)
        items = self._items(start) if callable(self._items) else self._items
        row = start if callable(self._items) or not self.rereads else 0
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
    """The samples of what an iterator brings: one, or a batch with a task or a task each."""
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        problem = f"a stream brings (x, y) or (x, y, task), not a {type(item).__name__}"
        return [Sample(None, None, None, "", row, problem)]
    x, y, task = (*item, None)[:3]
    y, task = (v.tolist() if isinstance(v, Tensor | np.ndarray) else v for v in (y, task))
    if not isinstance(y, list | tuple):
        return [Sample(x, y, task, "", row)]
    tasks = task if isinstance(task, list | tuple) else [task] * len(y)
    if not len(x) == len(y) == len(tasks):
        problem = f"a batch of {len(x)} samples with {len(y)} labels and {len(tasks)} tasks"
        return [Sample(None, None, None, "", row, problem)]
    return [Sample(*one, "", row + n) for n, one in enumerate(zip(x, y, tasks, strict=True))]
