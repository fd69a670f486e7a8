"""The seam between a run and the network: a `Transport` carries messages to parties and back.

Everything in `federation` but the modules called `flower_…` sees this protocol alone. To put a
federation on another network, write a class with these four methods and hand it to
`FederationStage`; at the party, call `Member.answer` with the content of every message, send back
what it returns, and call `Member.failed` before the server hears of a failure.

A transport promises little, because the `Courier` above it expects little:

- Parties are known by their numbers, their places in `Federation.parties`. A transport knows which
  connection belongs to which party (by its key), so that no party can answer for another.
- A message may get lost, and so may its answer. The courier asks again, and a party that gets a
  request twice learns it once.
- No method waits for a party. `connected` and `fetch` are called about once a second and ten times
  a second; they report what is there.
- Content is a state: nested dictionaries and lists of tensors, numbers, strings, booleans and None.
  It arrives as it was sent, bit for bit. It may have been flattened already (`ofcl.state.Flat`).
- The answers of parties are not trusted. Content that cannot be read is delivered as an empty
  state, which the checks above refuse. No code that a party or the server sends is ever run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ofcl.state import State


@dataclass(frozen=True)
class Delivery:
    """A party's answer to one message.

    Args:
        content: The answer; None if the party reports that it could not answer. Why it could not
            stays in the party's own log.
    """

    content: State | None


class Transport(Protocol):
    """Carries messages between the server of a run and its parties."""

    def connected(self) -> Mapping[int, str]:
        """Lists the parties that are connected now.

        Returns:
            For the number of each connected party, a text that changes when the party's process
            starts again. A request that the process before had taken with it is then sent again.
        """

    def send(self, party: int, content: State) -> str:
        """Sends a message to a party that is connected.

        Args:
            party: The number of the party.
            content: The message.

        Returns:
            An identifier of the message, with which `fetch` finds the answer; "" if the message
            could not be sent.
        """

    def fetch(self, messages: Sequence[str]) -> Mapping[str, Delivery]:
        """Collects the answers that have arrived, whole, since the last call.

        Args:
            messages: Identifiers of the messages that wait for an answer.

        Returns:
            The answers by the identifiers of the messages; each answer is handed out once.
        """

    def close(self) -> None:
        """Ends the transport: nothing will be sent any more. A second call does nothing."""
