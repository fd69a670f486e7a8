"""When a client communicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Schedule:
    """When a client communicates: after a burn-in in each task, every q mini-batches.

    >>> [n for n in range(50) if Schedule(burn_in=30, q=5).due(n)]
    [35, 40, 45]

    Args:
        burn_in: Mini-batches of a task before its first round.
        q: Mini-batches between rounds.
        first_round: `after-burn-in`: the first round needs more mini-batches than `burn_in`;
            `at-burn-in`: as many are enough.
    """

    burn_in: int
    q: int
    first_round: Literal["after-burn-in", "at-burn-in"] = "after-burn-in"

    def due(self, batches: int) -> bool:
        """Tells whether a client communicates now.

        Args:
            batches: The number of mini-batches that the client has learned of its current task.
        """
        start = self.burn_in + (self.first_round == "after-burn-in")
        return batches > 0 and batches >= start and batches % self.q == 0


Barrier = Literal["none", "after-test", "before-test", "at-end"]
"""Where a client that has ended a task waits for the others:

none:         nowhere; it is tested and goes on.
after-test:   after its test. The closing round and the method's server work for the next task.
before-test:  before its test, so that it is tested with what all have learned together.
at-end:       like `before-test`, but only when its stream has ended.
"""
