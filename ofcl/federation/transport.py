"""The seam between a run and the network, which carries messages to parties and back.

It has two sides: a `Transport` at the server, a `Connection` at each party. A run and a party see
these two protocols alone. To put a federation on another network, write a class for each, and name
both in `transport_choice.py`.

A transport carries the messages of a run, nothing else. The parties' keys (`setup/keys.py`), their
enrolment (`server_side/enrolment.py`), the commands `ofcl federation server`
(`server_side/server_process.py`) and `status` (`cli/federation_server.py`) are Flower's. Another
network needs its own of these, too.

Both sides promise little, because the `Courier` above a transport expects little:

- The server knows parties by their numbers, their places in `Federation.parties`. A transport knows
  which connection is which party's (by its key), so that no party can answer for another.
- A message may get lost, and so may its answer. The courier asks again, and a party that gets a
  request twice learns it once.
- No method of a transport waits for a party. `connected` is called about once a second and `fetch`
  ten times a second; they report what has arrived by then.
- Content is a state: nested dictionaries and lists of tensors, numbers, strings, booleans and None.
  It arrives as it was sent, bit for bit. It may have been flattened already (`ofcl.state.Flat`).
- The answers of parties are not trusted. Content that cannot be read is delivered as an empty
  state, which the checks above refuse. No code that a party or the server sends is ever run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from ofcl.errors import OfclError
from ofcl.state import Flat, State

FAILED: State = {"failed": True}
"""The answer of a party that could not answer, on a network that cannot say so otherwise."""


class ServerGone(OfclError):
    """Raised at the server's side of a run when the server is not there any more."""


class NoServer(ServerGone):
    """Raised when a run finds no server to begin with."""


@dataclass(frozen=True)
class Delivery:
    """A party's answer to one message.

    Args:
        content: The answer; None if the party reports that it could not answer. Why it could not
            stays in the party's own log.
    """

    content: State | None


class Transport(Protocol):
    """The server's side: sends messages to the parties of a run, and collects their answers."""

    def connected(self) -> Mapping[int, str]:
        """Lists the parties that are connected now.

        Returns:
            For the number of each connected party, a text that changes when the party's process
            starts again. A request that died with the earlier process is then sent again.
        """

    def send(self, party: int, content: State | Flat) -> str:
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


class Connection(Protocol):
    """A party's side: receives messages and sends back the answers, inside a `with` block."""

    def __enter__(self) -> Self:
        """Connects to the server, and tries until the server can be reached.

        Raises:
            OfclError: If the server refuses this party.
        """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnects from the server."""

    def serve(self, answer: Callable[[State], State | Flat], failed: Callable[[], None]) -> None:
        """Answers messages until the process is stopped.

        An error of `answer` goes to the party's log alone. The server hears that the party could
        not answer, not why.

        Args:
            answer: Takes the content of a message and gives the answer (`Member.answer`).
            failed: Is called before the server hears of a failure (`Member.failed`).
        """
