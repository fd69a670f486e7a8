"""Expiry: the age at which a memory forgets samples, in arrivals and by the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

DAY = 24 * 3600.0  # seconds


class Expiry:
    """Says which samples of a memory are too old to stay.

    Args:
        age: The number of later arrivals after which a sample is too old; None: no limit.
        days: The number of days after which a sample is too old; None: no limit.
    """

    def __init__(self, age: int | None, days: float | None) -> None:
        self.age, self.days = age, days
        self._arrivals: deque[tuple[int, float]] = deque()  # number of a sample, and when it came

    @property
    def never(self) -> bool:
        """Whether no sample is ever too old: neither limit is set."""
        return self.age is None and self.days is None

    def note_arrival(self, number: int) -> None:
        """Notes the current time as the arrival of a sample; does nothing without a limit in days.

        Arrivals within a thousandth of this limit are one entry, so that entries stay few.

        Args:
            number: The number of the sample's arrival in the stream: 0, 1, …
        """
        if self.days is None:
            return
        now = time.time()
        if not self._arrivals or now - self._arrivals[-1][1] > self.days * DAY / 1000:
            self._arrivals.append((number, now))

    def oldest(self, arrived: int) -> int:
        """Returns the arrival number of the oldest sample that may stay; it may be below 0.

        Args:
            arrived: The number of samples that have arrived so far.
        """
        oldest = 0 if self.age is None else arrived - self.age
        if self.days is None:
            return oldest
        while self._arrivals and self._arrivals[0][1] < time.time() - self.days * DAY:
            self._arrivals.popleft()
        return max(oldest, self._arrivals[0][0] if self._arrivals else arrived)

    def state(self) -> list[list[float]]:
        """Returns the noted arrivals for a checkpoint: [number of the sample, time in seconds]."""
        return [list(arrival) for arrival in self._arrivals]

    def load_state(self, state: Iterable[tuple[int, float]]) -> None:
        """Puts back the noted arrivals.

        Args:
            state: The arrivals that `state` returned.
        """
        self._arrivals = deque((int(number), float(when)) for number, when in state)
