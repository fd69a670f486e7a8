"""A `Transport` on Flower: the server's side of a run, which sends and fetches messages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import as_records, from_records
from ofcl.federation.server_side.flower_control import FlowerControl, ServerUnreachable
from ofcl.federation.server_side.flower_run import start_run, take_task
from ofcl.federation.transport import Delivery, NoServer, ServerGone
from ofcl.state import Flat, State

if TYPE_CHECKING:
    from ofcl.federation.setup.folders import ServerFolder

GIVEN_UP = (401, 403)  # HTTP statuses of a run that the server has given up
WEEK = 7 * 24 * 3600.0  # seconds that a message may wait for its party


class _GivenUp(Exception):
    """Raised if Flower's server has given up the run: this process has slept for a minute."""


@dataclass
class _Arriving:
    """An answer of which parts may be missing.

    Args:
        head: Flower's message without its content.
        parts: The identifiers of all parts of the content.
        contents: The parts that have arrived, by their identifiers.
    """

    head: Any
    parts: list[str]
    contents: dict[str, bytes] = field(default_factory=dict)


class FlowerTransport:
    """Sends and fetches the messages of one run on Flower's server (a `Transport`).

    Args:
        server: The server's folder.
        insecure: Whether to speak to the server without TLS.
        lasting: Seconds that a message may wait for its party.

    Raises:
        OfclError: If no server runs on this machine, or it does not hand out the run's task.
    """

    def __init__(self, server: ServerFolder, *, insecure: bool, lasting: float = WEEK) -> None:
        self._server, self._lasting, self._insecure = server, lasting, insecure
        self._numbers = {name: k for k, name in enumerate(server.federation.parties)}
        self._control = FlowerControl(server, insecure=insecure)
        self._nodes: dict[int, int] = {}  # party → Flower's number of its node
        self._opened = 0  # how often a run was started at Flower's server
        self._open()

    def _open(self) -> None:
        """Starts a run at Flower's server, and tells the server from now on that it goes on."""
        from flwr.supercore.heartbeat import HeartbeatSender

        run = start_run(self._server, self._control)
        self._grid = take_task(self._server, run, insecure=self._insecure)
        self._beat = HeartbeatSender(_heartbeat(self._grid._runtime_client))
        self._beat.start()
        self._opened += 1
        self._sent: set[str] = set()  # identifiers of messages of this run of Flower's
        self._arriving: dict[str, _Arriving] = {}  # by the identifier of the message answered

    def _open_again(self) -> None:
        """Starts another run at Flower's server: the last one was given up while this one slept.

        Messages of the last one are lost. The texts that `connected` gives change, so that they are
        sent again; parties answer them as before.
        """
        self._beat.stop()
        self._grid.close()
        try:
            self._open()
        except NoServer as error:  # it was there when this run began
            raise ServerGone(str(error)) from None

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Turns errors of the network into an `OfclError` that says how to resume the run."""
        import httpx

        try:
            yield
        except (httpx.HTTPError, ServerUnreachable) as error:
            if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in GIVEN_UP:
                raise _GivenUp from None
            raise ServerGone(
                f"the server at {self._server.here} has gone ({error}). What was learned is saved; "
                f"when it is there again: ofcl federation start {self._server.folder} --resume"
            ) from None

    def connected(self) -> Mapping[int, str]:
        """Lists the numbers of the connected parties, with the time when each process connected."""
        with self._reached():
            nodes = self._control.nodes()
        connected = {}
        for name, node in nodes.items():
            if name in self._numbers and node.online:
                party = self._numbers[name]
                self._nodes[party] = node.number
                connected[party] = f"{self._opened} {node.activated}"
        return connected

    def send(self, party: int, content: State | Flat) -> str:
        """Sends a message to a party.

        Args:
            party: The number of the party.
            content: The message.

        Returns:
            Flower's identifier of the message; "" if it could not be sent.
        """
        from flwr.app import Message

        message = Message(
            as_records(content),
            dst_node_id=self._nodes[party],
            message_type="query.ofcl",
            ttl=self._lasting,
        )
        try:
            with self._reached():
                sent = list(self._grid.push_messages([message]))
        except _GivenUp:
            self._open_again()
            return ""
        if not sent or not sent[0]:
            return ""
        self._sent.add(str(sent[0]))
        return str(sent[0])

    def fetch(self, messages: Sequence[str]) -> Mapping[str, Delivery]:
        """Collects the answers of which all parts have arrived; later calls look for the others.

        Args:
            messages: Identifiers of the messages that wait for an answer.

        Returns:
            The answers by the identifiers of the messages; each answer is handed out once.
        """
        try:
            return self._fetched([message for message in messages if message in self._sent])
        except _GivenUp:
            self._open_again()
            return {}

    def _fetched(self, messages: Sequence[str]) -> Mapping[str, Delivery]:
        """Collects answers to messages of the present run of Flower's."""
        self._arriving = {m: answer for m, answer in self._arriving.items() if m in messages}
        # Flower hands out an answer once; whoever asks for it again hears that there is none.
        if new := [message for message in messages if message not in self._arriving]:
            self._look_for_answers(new)
        deliveries = {}
        with self._reached():
            for message, arriving in self._arriving.items():
                if (delivery := self._delivery(arriving)) is not None:
                    deliveries[message] = delivery
        for message in deliveries:
            del self._arriving[message]
            self._sent.discard(message)
        return deliveries

    def _look_for_answers(self, messages: list[str]) -> None:
        """Asks the server which of these messages have answers, and notes the answers' parts."""
        from flwr.common.serde import message_from_proto
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

        request = PullAppMessagesRequest(message_ids=messages)
        with self._reached():
            pulled = self._grid._runtime_client.PullMessages(request)
        for proto, tree in zip(pulled.messages_list, pulled.message_object_trees, strict=True):
            head = message_from_proto(proto)
            parts = [part.object_id for part in iterate_object_tree(tree)]
            self._arriving[head.metadata.reply_to_message_id] = _Arriving(head, parts)

    def _delivery(self, arriving: _Arriving) -> Delivery | None:
        """Reads an answer; None: some of its parts have not arrived yet.

        Parts may never arrive, if the party was killed while it sent them. An answer that cannot be
        read is delivered as an empty state.

        Args:
            arriving: The answer. The parts that have arrived now are added to it.
        """
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import (
            ObjectPullError,
            ObjectUnavailableError,
            inflate_object_from_contents,
        )

        if arriving.head.has_error():
            return Delivery(None)
        client, node, run = self._grid._runtime_client, self._grid.node, self._grid.run.run_id
        number = arriving.head.metadata.message_id
        pull = make_pull_object_fn_protobuf(client.PullObject, node, run)
        try:
            for part in arriving.parts:
                if part not in arriving.contents:
                    arriving.contents[part] = pull(part)
        except (ObjectUnavailableError, ObjectPullError):
            return None
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=number)
        )
        try:
            message: Any = inflate_object_from_contents(number, arriving.contents)
            return Delivery(from_records(message.content))
        except Exception:  # a party is not trusted, and may have sent anything
            return Delivery({})

    def close(self) -> None:
        """Tells the server that the run is over, and closes the connection to it."""
        from flwr.common.constant import SubStatus
        from flwr.proto.runtime_pb2 import PushTaskOutputRequest

        if not self._beat.is_running:
            return
        with contextlib.suppress(Exception):  # the server may be gone
            done = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details="")
            self._grid._runtime_client.PushTaskOutput(done)
        self._beat.stop()
        self._grid.close()


def _heartbeat(client: Any) -> Callable[[], bool]:
    """Makes the function that tells Flower's server that the run goes on; a failure is no error.

    Args:
        client: Flower's client for the interface of runs.
    """
    import httpx
    from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest

    def beat() -> bool:
        try:
            return bool(client.SendTaskHeartbeat(SendTaskHeartbeatRequest()).success)
        except httpx.HTTPError:  # whoever sends the next message finds out why
            return False

    return beat
