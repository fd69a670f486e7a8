"""A `Transport` on Flower: the server's side of a run, which sends and fetches messages.

Flower runs the server's side of a run as a task that its server hands out. This process takes that
task itself, so that a run is an ordinary process and no app is started by Flower.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import as_records, from_records
from ofcl.errors import OfclError
from ofcl.federation.server_side.flower_control import FlowerControl, ServerUnreachable
from ofcl.federation.transport import Delivery
from ofcl.state import State

if TYPE_CHECKING:
    from ofcl.federation.setup.folders import ServerFolder

STARTING = 20.0  # seconds that the server may take to come up, and to hand out a run's task
GONE = 5.0  # seconds after which a server that does not answer has gone
WEEK = 7 * 24 * 3600.0  # seconds that a message may wait for its party

_APP = """[project]
name = "ofcl-run"
version = "0.0.0"
dependencies = []

[tool.flwr.app]
publisher = "ofcl"

[tool.flwr.app.components]
serverapp = "ofcl_run:app"
clientapp = "ofcl_run:app"
"""
"""Flower wants to ship code to the parties. This names none, and parties ignore what is shipped."""


@dataclass
class _Arriving:
    """An answer on its way: Flower's message without its content, and the parts of the content."""

    head: Any
    parts: list[str]
    contents: dict[str, bytes] = field(default_factory=dict)  # of the parts that are here


class FlowerTransport:
    """The messages of one run on Flower's server, for as long as the run is open.

    Args:
        server: The server's folder.
        insecure: Speaks to the server without TLS.
        lasting: Seconds that a message may wait for its party.

    Raises:
        OfclError: If no server runs on this machine, or it does not hand out the run's task.
    """

    def __init__(self, server: ServerFolder, *, insecure: bool, lasting: float = WEEK) -> None:
        from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http

        self._server, self._insecure, self._lasting = server, insecure, lasting
        self._numbers = {name: k for k, name in enumerate(server.federation.parties)}
        self._control = FlowerControl(server, insecure=insecure)
        self._run = self._start_run()
        self._grid = self._take_task()
        self._beat = HeartbeatSender(make_task_heartbeat_fn_http(self._grid._runtime_client))
        self._beat.start()
        self._nodes: dict[int, int] = {}  # party → Flower's number of its node
        self._arriving: dict[str, _Arriving] = {}  # by the message that they answer

    def _start_run(self) -> int:
        from flwr.cli.build import build_fab_from_files

        files = {"pyproject.toml": _APP.encode(), "ofcl_run.py": b"app = None\n"}
        app, _ = build_fab_from_files(files)
        digest = hashlib.sha256(app).hexdigest()
        until = time.monotonic() + STARTING
        while True:  # the server may have been started a moment ago
            try:
                return self._control.start_run(app, digest)
            except ServerUnreachable as error:
                if time.monotonic() > until:
                    raise OfclError(
                        f"no server at {self._server.here} ({error}); start it on this machine: "
                        f"ofcl federation server {self._server.folder}"
                    ) from None
                time.sleep(0.5)

    def _take_task(self) -> Any:
        """Takes the task of the run, to be its server; gives Flower's grid for it."""
        from flwr.proto.runtime_pb2 import AcquireTaskRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.interceptors import (
            RuntimeVersionHttpInterceptor,
            SuperExecAuthHttpInterceptor,
        )
        from flwr.supercore.runtime import RuntimeHttpClient

        authority = None if self._insecure else self._server.authority.read_bytes()
        secret = SuperExecAuthHttpInterceptor(
            master_secret=self._server.secret.read_bytes(),
            protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"}),
        )
        asking = RuntimeHttpClient.from_server_address(
            server_address=self._server.here,
            insecure=self._insecure,
            root_certificates=authority,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), secret],
        )
        until = time.monotonic() + STARTING
        wanted = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        while time.monotonic() < until:
            token = asking.AcquireTask(wanted).token
            if not token:
                time.sleep(0.1)
                continue
            if (grid := self._grid_of_task(token, authority)) is not None:
                return grid
        raise OfclError("the server has not handed out the run's task")

    def _grid_of_task(self, token: str, authority: bytes | None) -> Any:
        """Flower's grid for a task; None: the task is of another run, whose process was killed."""
        from flwr.common.serde import run_from_proto
        from flwr.proto.runtime_pb2 import PullTaskInputRequest
        from flwr.supercore.task_identity import TaskIdentity
        from flwr.superlink.grid import HttpGrid

        grid = HttpGrid(
            runtime_api_address=self._server.here,
            insecure=self._insecure,
            root_certificates=authority,
            token=token,
        )
        grid._retry_invoker.max_time = GONE  # it would try for ever
        task = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
        if task.run.run_id != self._run:
            grid.close()
            return None
        TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, task.run.run_id
        TaskIdentity.node_id = task.context.node_id
        grid.set_run(run_from_proto(task.run))
        return grid

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Says in words that the server has gone, or has been started again without this run."""
        import httpx

        try:
            yield
        except (httpx.HTTPError, ServerUnreachable) as error:
            raise OfclError(
                f"the server at {self._server.here} has gone ({error}). What was learned is saved; "
                f"when it is there again: ofcl federation start {self._server.folder} --resume"
            ) from None

    def connected(self) -> Mapping[int, str]:
        """Lists who is connected; the time of connecting tells a party's processes apart."""
        with self._reached():
            nodes = self._control.nodes()
        connected = {}
        for name, node in nodes.items():
            if name in self._numbers and node.online:
                party = self._numbers[name]
                self._nodes[party] = node.number
                connected[party] = node.activated
        return connected

    def send(self, party: int, content: State) -> str:
        """Sends a message to a party."""
        from flwr.app import Message

        message = Message(
            as_records(content),
            dst_node_id=self._nodes[party],
            message_type="query.ofcl",
            ttl=self._lasting,
        )
        with self._reached():
            sent = list(self._grid.push_messages([message]))
        return str(sent[0] or "") if sent else ""

    def fetch(self, messages: Sequence[str]) -> Mapping[str, Delivery]:
        """Collects the answers that are here, whole; the next call looks at the others again."""
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
        return deliveries

    def _look_for_answers(self, messages: list[str]) -> None:
        """Asks the server which of these messages have answers; their contents come in parts."""
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
        """Reads an answer of which all parts are here; None: they are not, and may never be.

        Its sender may have been killed while it sent; nobody waits for that here.
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
        """Reports to the server that the run is over."""
        from flwr.common.constant import SubStatus
        from flwr.proto.runtime_pb2 import PushTaskOutputRequest

        if not self._beat.is_running:
            return
        with contextlib.suppress(Exception):  # the server may be gone
            done = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details="")
            self._grid._runtime_client.PushTaskOutput(done)
        self._beat.stop()
        self._grid.close()
