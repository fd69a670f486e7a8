"""Quarantine: clients whose answers were rejected again and again are not asked any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

MOST_REJECTED = 5  # answers of a client that are rejected, one after the other


class Quarantine:
    """Counts rejected answers, and knows which clients are left out for them.

    Args:
        members: Clients that are left out from the beginning.
        most: So many rejected answers in a row put a client into quarantine.
    """

    def __init__(self, members: Collection[int] = (), most: int = MOST_REJECTED) -> None:
        self.members, self._most = set(members), most
        self._rejected: Counter[int] = Counter()  # rejected answers in a row

    def rejected(self, client: int) -> bool:
        """Notes a rejected answer; says whether it puts the client into quarantine.

        Args:
            client: The number of the client.
        """
        self._rejected[client] += 1
        if self._rejected[client] < self._most:
            return False
        self.members.add(client)
        return True

    def passed(self, client: int) -> None:
        """Notes an answer that was right.

        Args:
            client: The number of the client.
        """
        self._rejected[client] = 0

    def load(self, members: Collection[int], readmitted: Collection[int]) -> None:
        """Takes over the quarantine of a checkpoint.

        Args:
            members: The clients that were in quarantine.
            readmitted: Those of them that the operator lets in again.
        """
        self.members = set(members) - set(readmitted)
