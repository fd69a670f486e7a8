"""Testing a model on data held out for it, task by task and class by class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ofcl.batching import forward_size
from ofcl.events import Hits

ClassesOfTasks = Sequence[Collection[int]]
"""The classes that came in each task so far."""


class Tested(Protocol):
    """Data that a model is tested on."""

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """How often the model is right on the tasks seen so far, class by class."""


class HeldOut:
    """A client's own share of the test (or validation) data, for each of its tasks."""

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        rows_of_tasks: Sequence[np.ndarray],
        prepare: Callable[[Tensor], Tensor] = lambda x: x,
    ) -> None:
        self._x, self._y, self._prepare = x, y, prepare
        self._rows = [torch.from_numpy(rows).to(x.device) for rows in rows_of_tasks]

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """How often the model is right on as many tasks as were seen, class by class."""
        rows = self._rows[: len(seen)]
        return count_hits(model, self._x, self._y, rows, self._prepare) if rows else []


class SeenHeldOut:
    """Test data for a stream whose tasks nobody knows: a class belongs to the task it came in."""

    def __init__(self, samples: Callable[[], Tensor], labels: Sequence[str],
                 places: Callable[[], Mapping[str, int]]) -> None:  # fmt: skip
        self._samples, self._labels, self._places = samples, labels, places

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """How often the model is right on the classes seen so far, by the task they came in."""
        if not self._labels:
            return [[] for _ in seen]
        x, places = self._samples(), self._places()
        y = torch.tensor([places.get(label, -1) for label in self._labels], device=x.device)
        before: set[int] = set()
        rows = []
        for classes in seen:
            new = torch.tensor(sorted(set(classes) - before), device=x.device)
            rows.append(torch.isin(y, new).nonzero().squeeze(1))
            before |= set(classes)
        return count_hits(model, x, y, rows)


@torch.no_grad()
def count_hits(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    rows_of_tasks: Sequence[Tensor],
    prepare: Callable[[Tensor], Tensor] = lambda x: x,
) -> Hits:
    """How often a model is right on these rows, task by task and class by class."""
    rows = torch.cat(list(rows_of_tasks))
    training = model.training
    model.eval()
    right = [
        model(prepare(x[part])).argmax(1) == y[part]
        for part in torch.split(rows, forward_size(rows.device))
        if len(part)
    ]
    model.train(training)
    labels = y[rows].tolist()
    rights = torch.cat(right).tolist() if right else []
    counts: list[dict[int, list[int]]] = [{} for _ in rows_of_tasks]
    task_of_row = [t for t, part in enumerate(rows_of_tasks) for _ in range(len(part))]
    for task, c, hit in zip(task_of_row, labels, rights, strict=True):
        count = counts[task].setdefault(c, [c, 0, 0])
        count[1] += hit
        count[2] += 1
    return [sorted(classes.values()) for classes in counts]
