"""The seam between the engine and whatever carries its requests to clients in other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ofcl.engines.messages import Request
from ofcl.state import State


class Channel(Protocol):
    """Carries requests to clients in other processes, and brings back their answers."""

    def exchange(self, requests: Mapping[int, Request]) -> Mapping[int, State]:
        """Sends requests to clients, and waits for their answers.

        Args:
            requests: The requests by the numbers of the clients.

        Returns:
            The answers (packed replies) that came in time, by the numbers of the clients.
        """

    def close(self) -> None:
        """Ends the channel: no request will be sent any more."""
