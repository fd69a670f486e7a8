"""The seam between the engine and whatever carries its requests to clients in other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class ArrivalChannel(Protocol):
    """A channel that can bring the answers of some clients while others still work."""

    def arrivals(self, requests: Mapping[int, Request], *, wait: bool) -> Mapping[int, State]:
        """Sends those requests that are not on their way, and brings the answers that have come.

        A request without an answer stays on its way until a later call brings the answer, or names
        another request to the same client. One that was answered and is named again is sent again.

        Args:
            requests: The requests by the numbers of the clients.
            wait: Whether to wait until there is an answer. Even then there may be none, if all
                clients that can be reached have failed.

        Returns:
            The answers (packed replies) by the numbers of the clients, in the order of arrival.
        """
