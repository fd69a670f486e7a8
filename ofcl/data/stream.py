"""A stream: the mini-batches of one client, in the order in which they arrive, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ofcl.compute.devices import to_device
from ofcl.events import Event
from ofcl.state import State


class Batch(NamedTuple):
    """A mini-batch as it arrives: samples, places of their labels, and the task it belongs to."""

    x: Tensor  # on the device that learns
    y: Tensor  # on the CPU, where labels are counted
    task: int | None  # None: nobody says where tasks begin and end


class Stream(Protocol):
    """What a client learns from. It knows nothing of models."""

    def ready(self) -> bool:
        """Whether the next batch, or the end, is there without waiting for it."""

    def next_task(self) -> int | None:
        """The task of the batch that comes next; None when the stream has ended."""

    def __next__(self) -> Batch:
        """The next batch."""

    def notices(self) -> list[Event]:
        """What there is to tell since it was last asked: new classes, samples left out."""

    def state(self) -> State:
        """The position, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Seeks to a position."""


class ArrayStream:
    """A stream over the rows of tensors; it can be put at any position.

    >>> x, y = torch.arange(5.0), torch.zeros(5, dtype=torch.long)
    >>> stream = ArrayStream(x, y, [np.array([0, 1, 2]), np.array([3, 4])], batch_size=2)
    >>> [(batch.x.tolist(), batch.task) for batch in stream]
    [([0.0, 1.0], 0), ([2.0], 0), ([3.0, 4.0], 1)]
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        rows_of_tasks: Sequence[np.ndarray],
        batch_size: int,
        prepare: Callable[[Tensor], Tensor] = lambda x: x,
        limit: int | None = None,
    ) -> None:
        self._x, self._y, self._prepare = x, y, prepare
        self._batches = [
            (task, rows[start : start + batch_size])
            for task, rows in enumerate(rows_of_tasks)
            for start in range(0, len(rows), batch_size)[:limit]
        ]
        self._position = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> ArrayStream:
        return self

    def ready(self) -> bool:
        """Whether the next batch is there: always."""
        return True

    def notices(self) -> list[Event]:
        """What there is to tell: nothing, all has been known from the start."""
        return []

    def next_task(self) -> int | None:
        """The task of the batch that comes next; None when the stream has ended."""
        if self._position == len(self._batches):
            return None
        return self._batches[self._position][0]

    def __next__(self) -> Batch:
        if self._position == len(self._batches):
            raise StopIteration
        task, rows = self._batches[self._position]
        self._position += 1
        samples = self._x[to_device(rows, self._x.device)]
        return Batch(self._prepare(samples), self._y[torch.from_numpy(rows)], task)

    def state(self) -> State:
        """The position, for a checkpoint."""
        return {"position": self._position}

    def load_state(self, state: State) -> None:
        """Seeks to a position."""
        self._position = int(state["position"])
