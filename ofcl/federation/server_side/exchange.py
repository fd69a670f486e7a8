"""One exchange with parties: who is asked what, which messages are on their way, who has answered.

Nothing here sends or waits; that is the `Courier`'s job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ofcl.state import State

ASK_AGAIN = 300.0  # seconds without an answer after which a request is sent again


@dataclass(frozen=True)
class SentRequest:
    """The newest request that was sent to a party.

    Args:
        process: The process of the party to which it was sent (`Transport.connected`).
        time: When it was sent, in seconds.
    """

    process: str
    time: float


class Outstanding:
    """Messages that have been sent and not been answered yet.

    A request may have been sent to a party several times. The answer to any of these counts.
    """

    def __init__(self) -> None:
        self._parties: dict[str, int] = {}  # message → party
        self._newest: dict[int, SentRequest] = {}  # party → its newest request

    @property
    def messages(self) -> list[str]:
        """The identifiers of the messages that have not been answered."""
        return list(self._parties)

    def must_ask(self, party: int, process: str, now: float) -> bool:
        """Tells whether a party has to be sent its request, for the first time or once more.

        Once more: if the request went to an earlier process of the party, which has ended, or if
        there has been no answer for `ASK_AGAIN` seconds.

        Args:
            party: The number of the party.
            process: The process of the party that is connected now (`Transport.connected`).
            now: The time, in seconds.
        """
        sent = self._newest.get(party)
        if sent is None or sent.process != process:
            return True
        return now - sent.time >= ASK_AGAIN

    def add(self, message: str, party: int, process: str, now: float) -> None:
        """Notes that a message has been sent to a party.

        Args:
            message: The identifier of the message.
            party: The number of the party.
            process: The process of the party to which it was sent (`Transport.connected`).
            now: The time, in seconds.
        """
        self._parties[message] = party
        self._newest[party] = SentRequest(process, now)

    def remove(self, message: str) -> int:
        """Notes that a message has been answered.

        Args:
            message: The identifier of the message.

        Returns:
            The number of the party that has answered.
        """
        party = self._parties.pop(message)
        self._newest.pop(party, None)
        return party

    def forget(self, party: int) -> None:
        """Forgets what a party was sent: another request takes its place.

        Args:
            party: The number of the party.
        """
        self._parties = {m: other for m, other in self._parties.items() if other != party}
        self._newest.pop(party, None)


@dataclass
class Exchange:
    """One question to several parties, and their answers so far.

    Args:
        contents: For the number of each party, the message for it.
        started: When the exchange began, in seconds.
        deadline: Seconds after which it ends without the missing answers; None: it has no deadline.
        outstanding: Messages that wait for an answer. An exchange that repeats a question takes
            over those of the exchange before, so that late answers count.
        answers: The answers so far, by the numbers of the parties.
    """

    contents: Mapping[int, State]
    started: float
    deadline: float | None
    outstanding: Outstanding = field(default_factory=Outstanding)
    answers: dict[int, State] = field(default_factory=dict)

    @property
    def unanswered(self) -> list[int]:
        """The numbers of the parties that have not answered."""
        return [party for party in self.contents if party not in self.answers]

    def is_over(self, now: float) -> bool:
        """Tells whether the deadline has passed.

        Args:
            now: The time, in seconds.
        """
        return self.deadline is not None and now - self.started >= self.deadline
