"""When a run writes its next checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_SAVES = 10


class SaveTimer:
    """Tells when the next checkpoint is due, by mini-batches or by time.

    Args:
        every: Save after so many mini-batches, all clients together; None: save by time.
        clock: Gives the time in seconds.
    """

    def __init__(self, every: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._clock = every, clock
        self._unsaved = 0  # mini-batches since the last checkpoint
        self._saved_at = clock()
        self._saving_took = 0.0  # seconds

    def learned(self, batches: int) -> None:
        """Counts mini-batches that no checkpoint contains yet.

        Args:
            batches: How many have been learned.
        """
        self._unsaved += batches

    def due(self) -> bool:
        """Tells whether a checkpoint is due after an event of the run."""
        if self._every is not None:
            return self._unsaved >= self._every
        # Large states take long to save; saving shall take at most 5 % of the time.
        return self._unsaved > 0 and self._seconds() >= max(
            SECONDS_BETWEEN_SAVES, 20 * self._saving_took
        )

    def due_while_waiting(self) -> bool:
        """Tells whether a checkpoint is due while a run waits for samples, and has time for it."""
        return self._unsaved > 0 and self._seconds() >= SECONDS_BETWEEN_SAVES

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Measures how long the saving within the context takes, and starts anew after it."""
        started = self._clock()
        yield
        self._unsaved, self._saved_at = 0, self._clock()
        self._saving_took = self._saved_at - started

    def _seconds(self) -> float:
        """Gives the seconds since the last checkpoint."""
        return self._clock() - self._saved_at
