"""The server of a federation: Flower's SuperLink behind a guard, in this process.

Flower's Control interface can enrol keys and start runs, and asks nobody who he is; it listens on
the same port as the one for parties. So the guard lets nobody near it who does not know the
administrator's token, which lies in a file that only the server's account can read.
"""

from __future__ import annotations

import functools
import hmac
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from ofcl.engines.flower.records import check_flower

if TYPE_CHECKING:
    from flwr.supercore.control import ControlHttpClient

    from ofcl.federation.setup.folders import ServerFolder

STOPPING = 5  # seconds that connections get to end
HEADER = "x-ofcl-administrator"
OPEN = (
    "/v1/fleet/",
    "/v1/runtime/",
)  # parties' keys, and an executor's secret, are asked for there
GUARDED = "/v1/control/"
STRUCK_OFF = "unregistered"  # what Flower calls a node whose key is refused

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class Guard:
    """Lets requests pass to the paths for parties, to the others only with the token.

    Parties are let in when it is `ready`: their keys are enrolled, and those of others struck off.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        token: str,
        ready: threading.Event,
    ) -> None:
        self._app, self._token, self._ready = app, token.encode(), ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and (refusal := self._refusal(scope)):
            status, reason = refusal
            head = {"status": status, "headers": [(b"content-type", b"text/plain")]}
            await send({"type": "http.response.start", **head})
            await send({"type": "http.response.body", "body": reason})
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, bytes] | None:
        path: str = scope["path"]
        if path.startswith(OPEN):
            return None if self._ready.is_set() else (503, b"not ready yet")
        given = dict(scope["headers"]).get(HEADER.encode(), b"")
        known = path.startswith(GUARDED) and hmac.compare_digest(given, self._token)
        return None if known else (403, b"forbidden")


def serve(server: ServerFolder, host: str, ready: threading.Event, *, insecure: bool) -> None:
    """Runs the server in this process until it is stopped; parties wait until it is ready."""
    check_flower()
    import flwr.superlink.main as superlink
    import uvicorn
    from flwr.superlink.cli import flower_superlink

    logging.getLogger("flwr").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").addFilter(lambda _: False)  # ten lines a second
    security = ["--insecure"]
    if not insecure:
        security = [
            "--ssl-ca-certfile", str(server.authority), "--ssl-certfile", str(server.certificate),
            "--ssl-keyfile", str(server.key), "--enable-supernode-auth",
        ]  # fmt: skip
    # A party that does not say goodbye shall not keep the server from stopping.
    uvicorn.run = functools.partial(uvicorn.run, timeout_graceful_shutdown=STOPPING)
    create: Any = superlink.create_app
    token = server.token()
    superlink.create_app = lambda *a, **k: Guard(create(*a, **k), token, ready)  # type: ignore[assignment]
    sys.argv = [
        "flower-superlink", *security, "--host", host, "--port", str(server.federation.port),
        "--database", str(server.database), "--disable-runtime-dependency-installation",
        "--isolation", "process", "--superexec-auth-secret-file", str(server.secret),
    ]  # fmt: skip
    flower_superlink()


class _Token:
    """Shows the administrator's token with every request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        context.request.headers[HEADER] = self._token
        return call_next(context)


def control(server: ServerFolder, *, insecure: bool) -> ControlHttpClient:
    """The administrator's connection to the server on this machine."""
    check_flower()
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    return ControlHttpClient.from_server_address(
        server.here,
        insecure,
        None if insecure else server.authority.read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="ofcl"), _Token(server.token())],
    )


def register(client: ControlHttpClient, server: ServerFolder) -> None:
    """Enrols the keys of all parties, and strikes off those that have left."""
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.proto.control_pb2 import RegisterNodeRequest, UnregisterNodeRequest
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    known = nodes(client)
    for party in server.federation.left:
        if party in known:
            client.UnregisterNode(UnregisterNodeRequest(node_id=known[party].node_id))
    for party, path in server.public_keys().items():
        if party in known:
            continue
        key: Any = load_ssh_public_key(path.read_bytes())
        request = RegisterNodeRequest(public_key=public_key_to_bytes(key), name=party)
        client.RegisterNode(request)


def nodes(client: ControlHttpClient) -> dict[str, Any]:
    """What the server knows of the parties, by their names; those struck off are not there."""
    from flwr.proto.control_pb2 import ListNodesRequest

    listed = client.ListNodes(ListNodesRequest()).nodes_info
    return {node.name: node for node in listed if node.status != STRUCK_OFF}
