"""Held-out samples of several datasets, whose tasks were learned one dataset after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ofcl.evaluation.held_out import ClassesOfTasks, HeldOut, Predictions, Tested, count_hits
from ofcl.events import Hits


class JoinedHeldOut:
    """A client's held-out samples of all that it has learned, in one run or in several.

    Args:
        parts: For each dataset, in the order in which they were learned: the held-out samples, and
            the number of its tasks.
    """

    def __init__(self, parts: Sequence[tuple[Tested, int]]) -> None:
        self._parts = list(parts)

    def predictions(self, model: nn.Module, seen: ClassesOfTasks) -> list[Predictions]:
        """Lets the model predict the samples of the tasks so far.

        Args:
            model: The model to test.
            seen: The classes that came in each task so far, in all parts.

        Returns:
            The predictions on each task.
        """
        predictions: list[Predictions] = []
        for tested, tasks in self._parts:
            of_part, seen = seen[:tasks], seen[tasks:]
            if of_part:
                predictions += tested.predictions(model, of_part)
        return predictions

    def inputs(self, most: int) -> tuple[Tensor, Tensor]:
        """Returns samples of all tasks as a model's inputs, with their classes.

        Args:
            most: How many samples are returned at most, spread evenly over all.

        Returns:
            The inputs (n, …), and the classes (n,) on the CPU.
        """
        own = [part for part, _ in self._parts if isinstance(part, HeldOut | JoinedHeldOut)]
        given = [part.inputs(most) for part in own]
        given = [pair for pair in given if len(pair[1])] or given[-1:]  # without those of no shape
        if not given:
            return torch.empty(0), torch.empty(0, dtype=torch.long)
        x, y = (torch.cat(columns) for columns in zip(*given, strict=True))
        rows = torch.linspace(0, len(y) - 1, min(most, len(y))).long()
        return x[rows.to(x.device)], y[rows]

    def hits(self, model: nn.Module, seen: ClassesOfTasks) -> Hits:
        """Counts the right predictions among those that `predictions` returns, class by class.

        Args:
            model: The model to test.
            seen: The classes that came in each task so far, in all parts.

        Returns:
            For each task, `[class, right predictions, samples]` of each of its classes.
        """
        return count_hits(self.predictions(model, seen))
