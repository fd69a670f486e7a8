"""A transport that notes who is connected, who is asked and who answers (a `Transport`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ofcl.federation.server_side.run_status import RunStatus
from ofcl.federation.transport import Delivery, Transport
from ofcl.state import Flat, State


class NotedTransport:
    """Hands everything on to another transport, and notes it for `ofcl federation watch`.

    Args:
        transport: Carries the messages.
        status: Takes the notes.
    """

    def __init__(self, transport: Transport, status: RunStatus) -> None:
        self._transport, self._status = transport, status
        self._sent: dict[str, int] = {}  # message → party

    def connected(self) -> Mapping[int, str]:
        """Lists the parties that are connected now, with their processes."""
        found = self._transport.connected()
        self._status.connected(found)
        return found

    def send(self, party: int, content: State | Flat) -> str:
        """Sends a message to a party.

        Args:
            party: The number of the party.
            content: The message.

        Returns:
            An identifier of the message; "" if it could not be sent.
        """
        message = self._transport.send(party, content)
        if message:
            self._sent[message] = party
            self._status.asked(party)
        return message

    def fetch(self, messages: Sequence[str]) -> Mapping[str, Delivery]:
        """Collects the answers that have arrived.

        Args:
            messages: Identifiers of the messages that wait for an answer.
        """
        found = self._transport.fetch(messages)
        for message, delivery in found.items():
            if (party := self._sent.pop(message, None)) is not None:
                self._status.answered(party, delivery.content is None)
        # Messages that nobody asks for any more were given up: their round is over.
        self._sent = {m: party for m, party in self._sent.items() if m in set(messages)}
        self._status.nobody_asked(list(self._sent.values()))
        self._status.note_cost()
        return found

    def close(self) -> None:
        """Closes the transport."""
        self._transport.close()
