"""Tests of a model on held-out samples, task by task and class by class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ofcl.compute.batching import forward_size
from ofcl.compute.devices import to_device
from ofcl.events import Confusions, Hits

ClassesOfTasks = Sequence[Collection[int]]
"""The classes that came in each task so far."""


class Predictions(NamedTuple):
    """A model's predictions on the held-out samples of one task.

    Args:
        classes: The class of each sample (n,).
        predicted: The class that the model predicts for each sample (n,).
    """

    classes: np.ndarray
    predicted: np.ndarray


class Tested(Protocol):
    """Held-out samples: a model is tested on them and never learns them."""

    def predictions(self, model: nn.Module, seen: ClassesOfTasks) -> list[Predictions]:
        """Lets the model predict the samples of the tasks so far.

        Args:
            model: The model to test.
            seen: The classes that came in each task so far.

        Returns:
            The predictions on each task.
        """

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """Counts the model's right predictions on the tasks so far, class by class.

        Args:
            model: The model to test.
            seen: The classes that came in each task so far.

        Returns:
            For each task, `[class, right predictions, samples]` of each of its classes.
        """


@dataclass(frozen=True)
class HeldOutParts:
    """A client's held-out samples.

    Args:
        test: The samples that a run's result is measured on.
        validation: The samples by which settings are chosen.
    """

    test: Tested
    validation: Tested


class HeldOut:
    """A client's share of the test or validation samples of a dataset, for each of its tasks.

    Args:
        x: All test or validation samples of the dataset (n, …).
        y: Their classes (n,), on the CPU.
        rows_of_tasks: For each task, the rows of `x` that are the client's.
        prepare: Turns samples into the model's input.
        at_once: Whether every test is on all tasks, because the client learns them as one.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        rows_of_tasks: Sequence[np.ndarray],
        prepare: Callable[[Tensor], Tensor] = lambda x: x,
        *,
        at_once: bool = False,
    ) -> None:
        self._x, self._y, self._prepare, self._at_once = x, y, prepare, at_once
        self._rows = [torch.from_numpy(rows) for rows in rows_of_tasks]

    def predictions(self, model: nn.Module, seen: ClassesOfTasks) -> list[Predictions]:
        """Lets the model predict the samples of the tasks so far; of all tasks if `at_once`.

        Args:
            model: The model to test.
            seen: The classes that came in each task so far; here only the number of tasks matters.

        Returns:
            The predictions on each task.
        """
        rows = self._rows if self._at_once else self._rows[: len(seen)]
        return predict(model, self._x, self._y, rows, self._prepare)

    def inputs(self, most: int) -> tuple[Tensor, Tensor]:
        """Returns samples of all tasks as a model's inputs, with their classes.

        Args:
            most: How many samples are returned at most, spread evenly over all.

        Returns:
            The inputs (n, …), and the classes (n,) on the CPU.
        """
        rows = torch.cat([*self._rows, torch.empty(0, dtype=torch.long)])
        if len(rows) > most:
            rows = rows[torch.linspace(0, len(rows) - 1, most).long()]
        return self._prepare(self._x[to_device(rows, self._x.device)]), self._y[rows]

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """Counts the right predictions among those that `predictions` returns, class by class.

        Args:
            model: The model to test.
            seen: The classes that came in each task so far; here only the number of tasks matters.

        Returns:
            For each task, `[class, right predictions, samples]` of each of its classes.
        """
        return count_hits(self.predictions(model, seen))


class SeenHeldOut:
    """Test samples for a stream whose tasks are not known in advance.

    A class belongs to the task in which it first came to the client. Classes that have come to
    others alone are tested with the client's last task, so that a client that knows one class of
    many is not called perfect. Samples of classes that nobody has seen are left out.

    Args:
        samples: A function that returns the samples (n, …) as the model's input.
        labels: A function that returns the label of each sample.
        places: A function that returns the class of each label that is known so far.
    """

    def __init__(self, samples: Callable[[], Tensor], labels: Callable[[], Sequence[str]],
                 places: Callable[[], Mapping[str, int]]) -> None:  # fmt: skip
        self._samples, self._labels, self._places = samples, labels, places

    def predictions(self, model: nn.Module, seen: ClassesOfTasks) -> list[Predictions]:
        """Lets the model predict the samples of the classes that have come so far, task by task.

        Args:
            model: The model to test.
            seen: The classes that came in each task so far.

        Returns:
            For each task, the predictions on the classes that first came in it, and with the last
            one on all other known classes; empty arrays if there are no samples of these classes.
        """
        labels = self._labels()
        if not labels:
            nothing = np.empty(0, dtype=np.int64)
            return [Predictions(nothing, nothing) for _ in seen]
        x, places = self._samples(), self._places()
        y = torch.tensor([places.get(label, -1) for label in labels])
        before: set[int] = set()
        rows = []
        for task, classes in enumerate(seen, 1):
            others = set(places.values()) if task == len(seen) else set()
            new = torch.tensor(sorted((set(classes) | others) - before))
            rows.append(torch.isin(y, new).nonzero().squeeze(1))
            before |= set(classes)
        return predict(model, x, y, rows)

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """Counts the right predictions among those that `predictions` returns, class by class.

        Args:
            model: The model to test.
            seen: The classes that came in each task so far.

        Returns:
            For each task, `[class, right predictions, samples]` of each of its classes.
        """
        return count_hits(self.predictions(model, seen))


@torch.no_grad()
def predict(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    rows_of_tasks: Sequence[Tensor],
    prepare: Callable[[Tensor], Tensor] = lambda x: x,
) -> list[Predictions]:
    """Lets a model predict samples, task by task.

    Args:
        model: The model to test; it is put into evaluation mode meanwhile.
        x: The samples (n, …).
        y: Their classes (n,), on the CPU.
        rows_of_tasks: For each task, the rows of `x` to predict.
        prepare: Turns samples into the model's input.

    Returns:
        The predictions on each task.
    """
    if not rows_of_tasks:
        return []
    rows = torch.cat(list(rows_of_tasks))
    training = model.training
    model.eval()
    parts = [
        model(prepare(x[to_device(part, x.device)])).argmax(1)
        for part in torch.split(rows, forward_size(x.device))
        if len(part)
    ]
    model.train(training)
    classes = y[rows].numpy()
    predicted = torch.cat(parts).cpu().numpy() if parts else classes
    ends = np.cumsum([len(of_task) for of_task in rows_of_tasks])[:-1]
    by_task = zip(np.split(classes, ends), np.split(predicted, ends), strict=True)
    return [Predictions(*of_task) for of_task in by_task]


def count_hits(predictions: Sequence[Predictions]) -> Hits:
    """Counts a model's right predictions, task by task and class by class.

    Args:
        predictions: The predictions on each task.

    Returns:
        For each task, `[class, right predictions, samples]` of each of its classes.
    """
    counts = []
    for classes, predicted in predictions:
        total = np.bincount(classes)
        correct = np.bincount(classes[classes == predicted], minlength=len(total))
        counts.append([[int(c), int(correct[c]), int(total[c])] for c in np.flatnonzero(total)])
    return counts


def count_confusions(predictions: Sequence[Predictions]) -> Confusions:
    """Counts for which class the samples of each class are taken, over all tasks.

    Args:
        predictions: The predictions on each task.

    Returns:
        `[class, predicted class, samples]` of each pair of classes that occurs.

    >>> count_confusions([Predictions(np.array([0, 0, 1]), np.array([0, 1, 1]))])
    [[0, 0, 1], [0, 1, 1], [1, 1, 1]]
    """
    pairs = [np.stack(of_task, axis=1) for of_task in predictions]
    if not pairs:
        return []
    cells, samples = np.unique(np.concatenate(pairs), axis=0, return_counts=True)
    return [[int(c), int(taken), int(n)] for (c, taken), n in zip(cells, samples, strict=True)]
