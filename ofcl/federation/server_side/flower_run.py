"""Starts a run on Flower's server, and makes this process the server's side of the run.

For Flower, the server's side of a run is a task that its server hands out to an executor. This
process takes that task itself, so that Flower starts no app.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

from ofcl.federation.server_side.flower_control import FlowerControl, ServerUnreachable
from ofcl.federation.transport import NoServer

if TYPE_CHECKING:
    from ofcl.federation.setup.folders import ServerFolder

STARTING = 20.0  # seconds that the server may take to come up, and to hand out a run's task
BACK_SOON = (502, 503, 504)  # HTTP statuses of a server that will be back
GONE = 5.0  # seconds after which a server that does not answer counts as gone

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
"""The app that Flower ships to the parties. It has no code, and parties do not download it."""


def start_run(server: ServerFolder, control: FlowerControl) -> int:
    """Starts a run; waits for a server that is just coming up.

    Args:
        server: The server's folder.
        control: The administrator's connection to the server.

    Returns:
        Flower's number of the run.

    Raises:
        NoServer: If no server runs on this machine.
    """
    from flwr.cli.build import build_fab_from_files

    files = {"pyproject.toml": _APP.encode(), "ofcl_run.py": b"app = None\n"}
    app, _ = build_fab_from_files(files)
    digest = hashlib.sha256(app).hexdigest()
    until = time.monotonic() + STARTING
    while True:  # the server may have been started a moment ago
        try:
            return control.start_run(app, digest)
        except ServerUnreachable as error:
            if time.monotonic() > until:
                raise NoServer(
                    f"no server at {server.here} ({error}); start it on this machine: "
                    f"ofcl federation server {server.folder}"
                ) from None
            time.sleep(0.5)


def take_task(server: ServerFolder, run: int, *, insecure: bool) -> Any:
    """Takes the task of a run, which makes this process the server's side of it.

    Args:
        server: The server's folder.
        run: Flower's number of the run.
        insecure: Whether to speak to the server without TLS.

    Returns:
        Flower's grid, which sends and fetches the run's messages.

    Raises:
        NoServer: If the server does not hand out the task.
    """
    import httpx
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.interceptors import (
        RuntimeVersionHttpInterceptor,
        SuperExecAuthHttpInterceptor,
    )
    from flwr.supercore.runtime import RuntimeHttpClient

    authority = None if insecure else server.authority.read_bytes()
    secret = SuperExecAuthHttpInterceptor(
        master_secret=server.secret.read_bytes(),
        protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"}),
    )
    client = RuntimeHttpClient.from_server_address(
        server_address=server.here,
        insecure=insecure,
        root_certificates=authority,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), secret],
    )
    until = time.monotonic() + STARTING
    wanted = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
    while time.monotonic() < until:
        try:
            token = client.AcquireTask(wanted).token
        except httpx.HTTPStatusError as error:
            # A server that has just started answers so while parts of it are still starting.
            if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                raise
            token = ""
        except httpx.TransportError:  # it ends, or has not begun to listen
            token = ""
        if not token:
            time.sleep(0.1)
            continue
        if (grid := _grid_of_task(server.here, token, authority, run)) is not None:
            return grid
    raise NoServer("the server has not handed out the run's task")


def _grid_of_task(address: str, token: str, authority: bytes | None, run: int) -> Any:
    """Makes Flower's grid for a task that the server has handed out.

    Args:
        address: The server's host and port.
        token: The task's token.
        authority: The certificate that vouches for the server; None: without TLS.
        run: Flower's number of the run to which the task should belong.

    Returns:
        The grid; None if the task belongs to an older run, which was killed.
    """
    from flwr.common.serde import run_from_proto
    from flwr.proto.runtime_pb2 import PullTaskInputRequest
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.superlink.grid import HttpGrid

    grid: Any = HttpGrid(
        runtime_api_address=address,
        insecure=authority is None,
        root_certificates=authority,
        token=token,
    )
    grid._retry_invoker.max_time = GONE  # by default it tries for ever
    grid._retry_invoker.should_giveup = _is_final  # Flower's ends this process after a 401
    task = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
    if task.run.run_id != run:
        grid.close()
        return None
    TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, task.run.run_id
    TaskIdentity.node_id = task.context.node_id
    grid.set_run(run_from_proto(task.run))
    return grid


def _is_final(error: Exception) -> bool:
    """Tells whether a call that has failed with this error is hopeless, and not made again."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code not in BACK_SOON
    return any(word in str(error).lower() for word in ("certificate", "ssl", "tls"))
