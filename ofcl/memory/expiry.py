"""Expiry: the age at which a memory forgets samples, in arrivals and by the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

DAY = 24 * 3600.0  # seconds


class Expiry:
    """Says which samples of a memory are too old to stay.

    Args:
        age: A sample goes when so many others have arrived after it; None: it may stay.
        days: A sample goes after so many days; None: it may stay.
    """

    def __init__(self, age: int | None, days: float | None) -> None:
        self.age, self.days = age, days
        self._arrivals: deque[tuple[int, float]] = deque()  # number of a sample, and when it came

    @property
    def never(self) -> bool:
        """Whether samples may become as old as they like."""
        return self.age is None and self.days is None

    def note_arrival(self, number: int) -> None:
        """Notes that the sample of this number arrives now.

        Arrivals within a thousandth of the allowed time are one entry, so that entries stay few.
        """
        if self.days is None:
            return
        now = time.time()
        if not self._arrivals or now - self._arrivals[-1][1] > self.days * DAY / 1000:
            self._arrivals.append((number, now))

    def oldest(self, arrived: int) -> int:
        """Returns the number of the first sample that may stay.

        Args:
            arrived: How many samples have arrived so far.
        """
        oldest = 0 if self.age is None else arrived - self.age
        if self.days is None:
            return oldest
        while self._arrivals and self._arrivals[0][1] < time.time() - self.days * DAY:
            self._arrivals.popleft()
        return max(oldest, self._arrivals[0][0] if self._arrivals else arrived)

    def state(self) -> list[list[float]]:
        """Returns the noted arrivals, for a checkpoint."""
        return [list(arrival) for arrival in self._arrivals]

    def load_state(self, state: Iterable[tuple[int, float]]) -> None:
        """Puts back what `state` returned."""
        self._arrivals = deque((int(number), float(when)) for number, when in state)
