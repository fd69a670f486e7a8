"""Testing a model on data held out for it, task by task and class by class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ofcl.compute.batching import forward_size
from ofcl.compute.devices import to_device
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
        self._rows = [torch.from_numpy(rows) for rows in rows_of_tasks]

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """How often the model is right on as many tasks as were seen, class by class."""
        rows = self._rows[: len(seen)]
        return count_hits(model, self._x, self._y, rows, self._prepare) if rows else []


class SeenHeldOut:
    """Test data for a stream whose tasks nobody knows: a class belongs to the task it came in."""

    def __init__(self, samples: Callable[[], Tensor], labels: Callable[[], Sequence[str]],
                 places: Callable[[], Mapping[str, int]]) -> None:  # fmt: skip
        self._samples, self._labels, self._places = samples, labels, places

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """How often the model is right on the classes seen so far, by the task they came in."""
        labels = self._labels()
        if not labels:
            return [[] for _ in seen]
        x, places = self._samples(), self._places()
        y = torch.tensor([places.get(label, -1) for label in labels])
        before: set[int] = set()
        rows = []
        for classes in seen:
            new = torch.tensor(sorted(set(classes) - before))
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
    predicted = [
        model(prepare(x[to_device(part, x.device)])).argmax(1)
        for part in torch.split(rows, forward_size(x.device))
        if len(part)
    ]
    model.train(training)
    labels = y[rows].numpy()
    hits = (torch.cat(predicted).cpu().numpy() if predicted else labels) == labels
    counts, start = [], 0
    for part in rows_of_tasks:
        there, right = labels[start : start + len(part)], hits[start : start + len(part)]
        start += len(part)
        total, correct = np.bincount(there), np.bincount(there, weights=right)
        classes = np.flatnonzero(total)
        counts.append([[int(c), int(correct[c]), int(total[c])] for c in classes])
    return counts
