"""A stream: the mini-batches of one client, each of which arrives once."""

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
    """A mini-batch as it arrives.

    Args:
        x: The samples (n, …) as a model's input, on the device that learns.
        y: The class of each sample, on the CPU, where classes are counted.
        task: The number of the task; None: the stream does not say where tasks begin.
    """

    x: Tensor
    y: Tensor
    task: int | None


class Stream(Protocol):
    """The source of a client's mini-batches. It knows nothing of models."""

    def ready(self) -> bool:
        """Says whether `__next__` would return, or end the stream, without waiting."""

    def next_task(self) -> int | None:
        """Returns the task of the next batch; None when the stream has ended."""

    def __next__(self) -> Batch:
        """Returns the next batch, and waits for it if need be; raises StopIteration at the end."""

    def notices(self) -> list[Event]:
        """Returns the events since the last call: new classes, samples left out; often none."""

    def state(self) -> State:
        """Returns the position in the stream, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Goes to a position in the stream.

        Args:
            state: The position that `state` returned.
        """


class ArrayStream:
    """A stream over the rows of tensors, all known from the start.

    Args:
        x: The samples (n, …).
        y: The class of each sample.
        rows_of_tasks: The rows of each task, in the order in which they come.
        batch_size: The number of samples in a batch; the last batch of a task may be smaller.
        prepare: Turns samples into a model's input, for example `Dataset.prepare`.
        limit: The largest number of batches of each task, after which the rest is left out; None:
            all of them.
        first_task: The number of the first task; a client that goes on has learned others before.

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
        first_task: int = 0,
    ) -> None:
        self._x, self._y, self._prepare = x, y, prepare
        self._batches = [
            (task, rows[start : start + batch_size])
            for task, rows in enumerate(rows_of_tasks, first_task)
            for start in range(0, len(rows), batch_size)[:limit]
        ]
        self._position = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> ArrayStream:
        return self

    def ready(self) -> bool:
        """Returns True: nothing here has to be waited for."""
        return True

    def notices(self) -> list[Event]:
        """Returns no events: all classes are known from the start, and no sample is left out."""
        return []

    def next_task(self) -> int | None:
        """Returns the task of the next batch; None when the stream has ended."""
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
        """Returns the position in the stream, for a checkpoint."""
        return {"position": self._position}

    def load_state(self, state: State) -> None:
        """Goes to a position in the stream.

        Args:
            state: The position that `state` returned.
        """
        self._position = int(state["position"])
