"""A `Transport` that signs every message with the server's key before another one carries it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ofcl.federation.signing import Signer
from ofcl.federation.transport import Delivery, Transport
from ofcl.state import Flat, State


class SignedTransport:
    """Signs messages and lets another transport carry them.

    Args:
        transport: Carries the messages.
        signer: Signs as the server.
        parties: The names of the parties; a party's place is its number.
    """

    def __init__(self, transport: Transport, signer: Signer, parties: Sequence[str]) -> None:
        self._transport, self._signer, self._parties = transport, signer, parties

    def connected(self) -> Mapping[int, str]:
        """Lists the parties that are connected (`Transport.connected`)."""
        return self._transport.connected()

    def send(self, party: int, content: State | Flat) -> str:
        """Signs a message for a party, and sends it.

        Args:
            party: The number of the party.
            content: The message.

        Returns:
            The identifier of the message; "" if it could not be sent.
        """
        return self._transport.send(party, self._signer.signed(content, self._parties[party]))

    def fetch(self, messages: Sequence[str]) -> Mapping[str, Delivery]:
        """Collects answers (`Transport.fetch`).

        Args:
            messages: Identifiers of the messages that wait for an answer.
        """
        return self._transport.fetch(messages)

    def close(self) -> None:
        """Closes the transport."""
        self._transport.close()
