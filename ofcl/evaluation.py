"""Testing a model on data held out for it, task by task and class by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ofcl.batching import forward_size
from ofcl.events import Hits


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

    @torch.no_grad()
    def hits(self, model: nn.Module, tasks: int) -> Hits:
        """How often the model is right on the first `tasks` tasks, class by class."""
        if not tasks:
            return []
        rows = torch.cat(self._rows[:tasks])
        training = model.training
        model.eval()
        right = [
            model(self._prepare(self._x[part])).argmax(1) == self._y[part]
            for part in torch.split(rows, forward_size(rows.device))
        ]
        model.train(training)
        labels = self._y[rows].tolist()
        rights = torch.cat(right).tolist()
        counts: list[dict[int, list[int]]] = [{} for _ in range(tasks)]
        task_of_row = [t for t, part in enumerate(self._rows[:tasks]) for _ in range(len(part))]
        for task, c, hit in zip(task_of_row, labels, rights, strict=True):
            count = counts[task].setdefault(c, [c, 0, 0])
            count[1] += hit
            count[2] += 1
        return [sorted(classes.values()) for classes in counts]
