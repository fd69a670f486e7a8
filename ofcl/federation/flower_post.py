"""The server's side of a run on Flower: it takes the run's task, sends and fetches messages."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower_records import as_records, from_records
from ofcl.errors import OfclError
from ofcl.federation.courier import Arrived
from ofcl.federation.flower_link import control, nodes
from ofcl.state import State

if TYPE_CHECKING:
    from ofcl.federation.folders import ServerFolder

STARTING = 20.0  # seconds that the server may take to come up, and to hand out a run's task
WEEK = 7 * 24 * 3600.0  # seconds that a message may wait for its party
PULL_WAIT = 0.05  # seconds until an answer is asked for again that is not whole yet

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


class FlowerPost:
    """A run on the server, for as long as it is open."""

    def __init__(self, server: ServerFolder, *, insecure: bool, lasting: float = WEEK) -> None:
        from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
        from flwr.supercore.inflatable import inflatable_utils

        # Flower waits a whole second for an answer that is still on its way.
        (inflatable_utils.pull_objects.__kwdefaults__ or {})["initial_backoff"] = PULL_WAIT
        self._server, self._insecure, self._lasting = server, insecure, lasting
        self._places = {name: k for k, name in enumerate(server.federation.parties)}
        self._client = control(server, insecure=insecure)
        self._run = self._started()
        self._grid = self._task()
        self._beat = HeartbeatSender(make_task_heartbeat_fn_http(self._grid._runtime_client))
        self._beat.start()
        self._nodes: dict[int, int] = {}  # party → its number at the server

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
            given = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
            if given.run.run_id != self._run:  # of a run whose process was killed; let it end
                grid.close()
                continue
            TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
            TaskIdentity.node_id = given.context.node_id
            grid.set_run(run_from_proto(given.run))
            return grid
        raise OfclError("the server has not handed out the run's task")

    def connected(self) -> Mapping[int, str]:
        """Who is connected; the time at which a process has connected tells processes apart."""
        found = {}
        for name, node in nodes(self._client).items():
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
        sent = list(self._grid.push_messages([message]))
        return str(sent[0] or "") if sent else ""

    def fetch(self, messages: Sequence[str]) -> Mapping[str, Arrived]:
        """What has come back."""
        if not messages:
            return {}
        found = {}
        for message in self._grid.pull_messages(messages):
            found[message.metadata.reply_to_message_id] = Arrived(_content(message))
        return found

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


def _content(message: Any) -> State | None:
    if message.has_error():
        return None
    try:
        return from_records(message.content)
    except Exception:  # whatever somebody has sent who is not to be trusted
        return {}
