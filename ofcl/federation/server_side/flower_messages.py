"""The server's side of a run on Flower: it takes the run's task, sends and fetches messages."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import as_records, from_records
from ofcl.errors import OfclError
from ofcl.federation.server_side.flower_server import control, nodes
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
    """An answer on its way: what is known of it, its parts, and those that are here."""

    head: Any
    parts: list[str]
    contents: dict[str, bytes] = field(default_factory=dict)


class FlowerTransport:
    """A run on the server, for as long as it is open."""

    def __init__(self, server: ServerFolder, *, insecure: bool, lasting: float = WEEK) -> None:
        from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http

        self._server, self._insecure, self._lasting = server, insecure, lasting
        self._places = {name: k for k, name in enumerate(server.federation.parties)}
        self._client = control(server, insecure=insecure)
        self._run = self._started()
        self._grid = self._task()
        self._beat = HeartbeatSender(make_task_heartbeat_fn_http(self._grid._runtime_client))
        self._beat.start()
        self._nodes: dict[int, int] = {}  # party → its number at the server
        self._arriving: dict[str, _Arriving] = {}  # by the message that they answer

    def _started(self) -> int:
        import httpx
        from flwr.cli.build import build_fab_from_files
        from flwr.common.serde import fab_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        files = {"pyproject.toml": _APP.encode(), "ofcl_run.py": b"app = None\n"}
        content, _ = build_fab_from_files(files)
        fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
        until = time.monotonic() + STARTING
        while True:  # the server may have been started a moment ago
            try:
                return int(self._client.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id)
            except httpx.TransportError as error:
                if time.monotonic() > until:
                    raise OfclError(
                        f"no server at {self._server.here} ({error}); start it on this machine: "
                        f"ofcl federation server {self._server.folder}"
                    ) from None
                time.sleep(0.5)

    def _task(self) -> Any:
        """Takes the task of the run: to be its server."""
        from flwr.common.serde import run_from_proto
        from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.interceptors import (
            RuntimeVersionHttpInterceptor,
            SuperExecAuthHttpInterceptor,
        )
        from flwr.supercore.runtime import RuntimeHttpClient
        from flwr.supercore.task_identity import TaskIdentity
        from flwr.superlink.grid import HttpGrid

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
            grid = HttpGrid(
                runtime_api_address=self._server.here,
                insecure=self._insecure,
                root_certificates=authority,
                token=token,
            )
            grid._retry_invoker.max_time = GONE  # it would try for ever
            given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
            if given.run.run_id != self._run:  # of a run whose process was killed; let it end
                grid.close()
                continue
            TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
            TaskIdentity.node_id = given.context.node_id
            grid.set_run(run_from_proto(given.run))
            return grid
        raise OfclError("the server has not handed out the run's task")

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Says in words that the server has gone, or has been started again without this run."""
        import httpx

        try:
            yield
        except httpx.HTTPError as error:
            raise OfclError(
                f"the server at {self._server.here} has gone ({error}). What was learned is saved; "
                f"when it is there again: ofcl federation start {self._server.folder} --resume"
            ) from None

    def connected(self) -> Mapping[int, str]:
        """Who is connected; the time at which a process has connected tells processes apart."""
        found = {}
        with self._reached():
            listed = nodes(self._client)
        for name, node in listed.items():
            if name in self._places and node.status == "online":
                self._nodes[self._places[name]] = node.node_id
                found[self._places[name]] = node.last_activated_at
        return found

    def send(self, party: int, content: State) -> str:
        """Sends to a party."""
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
        """What has come back, whole; what is still on its way is looked at again."""
        from flwr.common.serde import message_from_proto
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree

        self._arriving = {m: a for m, a in self._arriving.items() if m in messages}
        # An answer is handed out once; whoever asks for it again is told that there is none.
        if asked := [message for message in messages if message not in self._arriving]:
            request = PullAppMessagesRequest(message_ids=asked)
            with self._reached():
                pulled = self._grid._runtime_client.PullMessages(request)
            for proto, tree in zip(pulled.messages_list, pulled.message_object_trees, strict=True):
                head = message_from_proto(proto)
                parts = [part.object_id for part in iterate_object_tree(tree)]
                self._arriving[head.metadata.reply_to_message_id] = _Arriving(head, parts)
        with self._reached():
            found = {m: arrived for m in list(self._arriving) if (arrived := self._whole(m))}
        for message in found:
            del self._arriving[message]
        return found

    def _whole(self, message: str) -> Delivery | None:
        """An answer of which all parts are there; None: they are not, and may never be.

        Its sender may have been killed while he sent it; nobody waits for that here.
        """
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
        from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
        from flwr.supercore.inflatable.inflatable_utils import (
            ObjectPullError,
            ObjectUnavailableError,
            inflate_object_from_contents,
        )

        arriving, client = self._arriving[message], self._grid._runtime_client
        if arriving.head.has_error():
            return Delivery(None)
        run, number = self._grid.run.run_id, arriving.head.metadata.message_id
        pull = make_pull_object_fn_protobuf(client.PullObject, self._grid.node, run)
        try:
            for part in arriving.parts:
                if part not in arriving.contents:
                    arriving.contents[part] = pull(part)
        except (ObjectUnavailableError, ObjectPullError):
            return None
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(
                node=self._grid.node, run_id=run, message_object_id=number
            )
        )
        try:
            whole: Any = inflate_object_from_contents(number, arriving.contents)
            return Delivery(from_records(whole.content))
        except Exception:  # whatever somebody has sent who is not to be trusted
            return Delivery({})

    def close(self) -> None:
        """Tells the server that the run is over."""
        from flwr.common.constant import SubStatus
        from flwr.proto.runtime_pb2 import PushTaskOutputRequest

        if not self._beat.is_running:
            return
        with contextlib.suppress(Exception):  # the server may be gone
            done = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details="")
            self._grid._runtime_client.PushTaskOutput(done)
        self._beat.stop()
        self._grid.close()
