"""Tests of a model on held-out samples, task by task and class by class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
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
    """Samples that a model is tested on and never learns."""

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """Counts the model's right predictions on the tasks seen so far, class by class."""


@dataclass(frozen=True)
class HeldOutParts:
    """The samples that a client is tested on, and those that settings are chosen by."""

    test: Tested
    validation: Tested


class HeldOut:
    """A client's share of the test or validation samples of a dataset, for each of its tasks.

    Args:
        x: The samples of the dataset.
        y: Their classes, on the CPU.
        rows_of_tasks: For each task, which samples are the client's.
        prepare: Makes the model's input of samples.
    """

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
        """Counts right predictions on as many tasks as were seen, class by class."""
        rows = self._rows[: len(seen)]
        return count_hits(model, self._x, self._y, rows, self._prepare) if rows else []


class SeenHeldOut:
    """Test samples for a stream whose tasks nobody knows: a class belongs to the task it came in.

    Args:
        samples: Returns the samples, as the model takes them.
        labels: Returns the label of each sample.
        places: Returns the class of each label that is known so far.
    """

    def __init__(self, samples: Callable[[], Tensor], labels: Callable[[], Sequence[str]],
                 places: Callable[[], Mapping[str, int]]) -> None:  # fmt: skip
        self._samples, self._labels, self._places = samples, labels, places

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """Counts right predictions on the classes seen so far, by the task they came in."""
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
    """Counts a model's right predictions, task by task and class by class.

    Args:
        model: The model; it is in evaluation mode meanwhile.
        x: Samples.
        y: Their classes, on the CPU.
        rows_of_tasks: For each task, which samples are its.
        prepare: Makes the model's input of samples.

    Returns:
        For each task, `[class, right predictions, samples]` of each of its classes.
    """
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
    for task_rows in rows_of_tasks:
        of_task = slice(start, start + len(task_rows))
        start += len(task_rows)
        total = np.bincount(labels[of_task])
        correct = np.bincount(labels[of_task], weights=hits[of_task])
        classes = np.flatnonzero(total)
        counts.append([[int(c), int(correct[c]), int(total[c])] for c in classes])
    return counts
