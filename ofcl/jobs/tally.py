"""Sums of a run's events, for its progress."""

from __future__ import annotations

from collections import deque

from ofcl.events import Evaluated, Event, Learned, Round, Skipped
from ofcl.experiment import Run

RECENT = 50  # mini-batches over which the recent accuracy is taken


class Tally:
    """Sums up the events of a run: rounds, mini-batches, loss, classes, skipped samples.

    Args:
        run: The run; if it is resumed, its earlier events are counted at once.
    """

    def __init__(self, run: Run) -> None:
        self.tasks, self.clients = run.last_task, run.settings.clients
        self.earlier = run.earlier_tasks  # tasks of runs before this one
        self.task = self.earlier
        self.rounds = self.batches = self.skipped = 0
        self._run = run
        self.ended: dict[int, int] = {}
        self._loss = self._samples = 0.0
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT)
        for event in run.events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Counts one more event.

        Args:
            event: The event.
        """
        match event:
            case Learned():
                if event.task > self.task:
                    self.task, self._loss, self._samples = event.task, 0.0, 0.0
                self.batches += event.batches
                self._loss += event.loss
                self._samples += event.samples
                self._recent.append((event.correct, event.samples))
            case Round():
                self.rounds = event.round
            case Evaluated():
                self.ended[event.task] = self.ended.get(event.task, 0) + 1
            case Skipped():
                self.skipped += 1

    @property
    def classes(self) -> int:
        """The number of classes that are known so far, those from the beginning included."""
        return len(self._run.labels)

    @property
    def recent_accuracy(self) -> float:
        """The accuracy on the newest mini-batches just before they were learned, %; at first 0."""
        samples = sum(n for _, n in self._recent)
        return 100 * sum(right for right, _ in self._recent) / max(samples, 1)

    @property
    def loss(self) -> float:
        """The mean loss of the samples of the newest task; NaN before the first mini-batch."""
        return self._loss / self._samples if self._samples else float("nan")
