"""Carries a run's messages on Flower's `Grid`, to the nodes of a SuperLink that runs already.

Flower knows nodes by numbers of its own, which may change when a SuperNode starts again. So every
node that is new is asked for its party's name (`WHO`). A name is believed: Flower does not tell an
app by which key a node was let in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ofcl.engines.flower.records import as_records, from_records
from ofcl.federation.transport import FAILED, Delivery
from ofcl.state import Flat, State

if TYPE_CHECKING:
    from flwr.app import Message
    from flwr.serverapp import Grid

WHO = "query.who"  # asks a node for its party's name
ANSWER = "query.answer"  # has a message to the party
LASTING = 7 * 24 * 3600.0  # seconds that the SuperLink keeps a message
LOOK_AGAIN = 0.5  # seconds between two looks for answers
ASK_AGAIN = 60.0  # seconds after which a node is asked again for its name


class GridTransport:
    """A `Transport` to the SuperNodes of a SuperLink.

    Args:
        grid: Flower's grid, as the app's main function is given it.
        parties: The names of the parties; their places are the parties' numbers.
        tell: Is given each line for the user.
    """

    def __init__(
        self, grid: Grid, parties: Sequence[str], tell: Callable[[str], None] = print
    ) -> None:
        self._grid, self._parties, self._tell = grid, list(parties), tell
        self._names: dict[str, str] = {}  # node's process → name, in the order of their coming
        self._asked: dict[str, tuple[str, float]] = {}  # node's process → message for it, when
        self._nodes: dict[int, int] = {}  # party → Flower's number of its node
        self._looked = 0.0

    def connected(self) -> Mapping[int, str]:
        """Lists the parties whose nodes are there now; asks new nodes for their names.

        If two nodes have one name, the newer one is the party: the other is of a process that has
        died, which Flower notices late.
        """
        nodes = {_process(node): node.node_id for node in self._grid.get_nodes()}
        self._names = {process: name for process, name in self._names.items() if process in nodes}
        self._asked = {process: sent for process, sent in self._asked.items() if process in nodes}
        self._read_names()
        now = time.monotonic()
        for process, node in nodes.items():
            asked = self._asked.get(process)
            if process not in self._names and (asked is None or now - asked[1] > ASK_AGAIN):
                self._asked[process] = self._push(node, WHO, {}), now
        found = {
            self._parties.index(name): process
            for process, name in self._names.items()
            if name in self._parties
        }
        self._nodes = {party: nodes[process] for party, process in found.items()}
        return found

    def _read_names(self) -> None:
        """Reads the names that nodes have answered."""
        waiting = {message: process for process, (message, _) in self._asked.items() if message}
        if not waiting:
            return
        for reply in self._grid.pull_messages(list(waiting)):
            process = waiting[reply.metadata.reply_to_message_id]
            _, when = self._asked[process]
            self._asked[process] = "", when
            name = "" if reply.has_error() else str(_content(reply).get("party", ""))
            if reply.has_error():
                self._tell(f"a node could not say its name: {reply.error.reason}")
            elif name not in self._parties:
                self._tell(f"a node calls itself {name[:80]!r}, which is not in 'parties'")
            if name:
                self._names.pop(process, None)  # the newest is the last
                self._names[process] = name
                del self._asked[process]

    def send(self, party: int, content: State | Flat) -> str:
        """Sends a message to a party that is connected.

        Args:
            party: The number of the party, which the node is told: it knows its name alone.
            content: The message.

        Returns:
            Flower's identifier of the message; "" if it could not be sent.
        """
        return self._push(self._nodes[party], ANSWER, {"number": party, "content": content})

    def _push(self, node: int, kind: str, content: State) -> str:
        """Sends a message to a node; gives its identifier, or "" if that has failed."""
        from flwr.app import Message

        message = Message(as_records(content), dst_node_id=node, message_type=kind, ttl=LASTING)
        sent = list(self._grid.push_messages([message]))
        return sent[0] or "" if sent else ""

    def fetch(self, messages: Sequence[str]) -> Mapping[str, Delivery]:
        """Collects the answers that have arrived, at most twice a second.

        Args:
            messages: Identifiers of the messages that wait for an answer.
        """
        if not messages or time.monotonic() - self._looked < LOOK_AGAIN:
            return {}
        found = {
            reply.metadata.reply_to_message_id: self._delivery(reply)
            for reply in self._grid.pull_messages(list(messages))
        }
        self._looked = time.monotonic()
        return found

    def _delivery(self, reply: Message) -> Delivery:
        """Reads an answer; one that cannot be read is an empty state, which is refused later."""
        if reply.has_error():  # a node that has gone, an app that cannot be loaded there
            self._tell(f"Flower says: {reply.error.reason}")
            return Delivery(None)
        content = _content(reply)
        return Delivery(None if content == FAILED else content)

    def close(self) -> None:
        """Does nothing: Flower closes its grid when the app has ended."""


def _process(node: object) -> str:
    """Names a node's process: its number, and when it was started, where Flower tells that."""
    return f"{getattr(node, 'node_id', 0)} {getattr(node, 'last_activated_at', '')}".strip()


def _content(reply: Message) -> State:
    """Reads the content of an answer; empty: it cannot be read."""
    try:
        return from_records(reply.content)
    except Exception:  # whatever a stranger's bytes cause
        return {}
