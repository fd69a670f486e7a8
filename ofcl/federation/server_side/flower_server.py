"""Flower's server (SuperLink) in this process, behind a guard.

Flower's Control interface can enrol keys and start runs. It does not ask who is calling, and it
listens on the same port as the interface for parties. So the guard refuses calls to it without the
administrator's token, which is in a file that only the server's account can read.
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
from ofcl.federation.server_side.flower_control import HEADER
from ofcl.federation.server_side.flower_replies import replies_only
from ofcl.federation.server_side.renewed_certificate import RenewedCertificate

if TYPE_CHECKING:
    from ofcl.federation.setup.folders import ServerFolder

STOPPING = 5  # seconds that connections get to end
KEEP_ALIVE = 75  # seconds for which an unused connection stays open: idle parties keep theirs
MOVING = ("/activate-node", "/deactivate-node")  # a party comes or goes
OPEN = ("/v1/fleet/", "/v1/runtime/")  # Flower asks for a party's key or an executor's secret there
GUARDED = "/v1/control/"
LARGE = ("/v1/fleet/push-object", "/v1/runtime/")  # requests that carry a model
MOST_LARGE, MOST_SMALL = 256 * 2**20, 2**20  # bytes of a request
MOST_IN_ALL = 512 * 2**20  # bytes of all requests that are being read

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class Guard:
    """Refuses requests to Flower's Control interface that lack the administrator's token.

    Requests to the interfaces for parties and for the process of a run pass: there, Flower asks for
    a key or a secret itself.

    Args:
        app: Flower's server, as an ASGI application.
        token: The administrator's token.
        ready: Is set when the keys of the parties are enrolled, and those of parties that left are
            refused. Before that, no party is let in.
        moved: Is set when a party has come or gone.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        token: str,
        ready: threading.Event,
        moved: threading.Event | None = None,
    ) -> None:
        self._app, self._token, self._ready = app, token.encode(), ready
        self._moved = moved or threading.Event()
        self._reading = 0  # bytes of all requests that are being read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses a request, or hands it on to Flower; the parameters are those of ASGI."""
        if scope["type"] == "http" and (refusal := self._refusal(scope)):
            status, reason = refusal
            head = {"status": status, "headers": [(b"content-type", b"text/plain")]}
            await send({"type": "http.response.start", **head})
            await send({"type": "http.response.body", "body": reason})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        read = 0
        most = MOST_LARGE if scope["path"].startswith(LARGE) else MOST_SMALL

        async def counted() -> Any:
            nonlocal read
            message = await receive()
            size = len(message.get("body", b""))
            read, self._reading = read + size, self._reading + size
            if read > most or self._reading > MOST_IN_ALL:
                return {"type": "http.disconnect"}  # Flower gives the request up
            return message

        try:
            await self._app(scope, counted, send)
        finally:
            self._reading -= read
            if scope["path"].endswith(MOVING):
                self._moved.set()

    def _refusal(self, scope: Scope) -> tuple[int, bytes] | None:
        """Gives the HTTP status and text that refuse a request (ASGI's scope); None: it passes."""
        path: str = scope["path"]
        length = dict(scope["headers"]).get(b"content-length", b"0")
        most = MOST_LARGE if path.startswith(LARGE) else MOST_SMALL
        if not length.isdigit() or int(length) > most:
            return 413, b"too large"
        if path.startswith(OPEN):
            return None if self._ready.is_set() else (503, b"not ready yet")
        given = dict(scope["headers"]).get(HEADER.encode(), b"")
        known = path.startswith(GUARDED) and hmac.compare_digest(given, self._token)
        return None if known else (403, b"forbidden")


def serve(
    server: ServerFolder,
    host: str,
    ready: threading.Event,
    moved: threading.Event,
    *,
    insecure: bool,
    tell: Callable[[str], None],
) -> None:
    """Runs the server in this process until it is stopped.

    Args:
        server: The server's folder.
        host: The address to listen on.
        ready: Is set when parties may be let in.
        moved: An event that is set here when a party comes or goes.
        insecure: Whether to listen without TLS, and ask parties for no key.
        tell: Is given a line about every party that sends what it may not.
    """
    check_flower()
    import flwr.superlink.main as superlink
    import uvicorn
    from flwr.superlink.cli import flower_superlink
    from flwr.superlink.servicer.fleet import fleet_handlers

    logging.getLogger("flwr").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").addFilter(lambda _: False)  # ten lines a second
    # A party that does not say goodbye shall not keep the server from stopping.
    uvicorn.run = functools.partial(
        uvicorn.run, timeout_graceful_shutdown=STOPPING, timeout_keep_alive=KEEP_ALIVE
    )
    if not insecure:
        renewed = RenewedCertificate(server.certificate, server.key, tell)
        uvicorn.run = functools.partial(
            uvicorn.run, ssl_context_factory=lambda config, usual: renewed.watch(usual())
        )
    create: Any = superlink.create_app
    token = server.token()
    superlink.create_app = lambda *a, **k: Guard(  # type: ignore[assignment]
        create(*a, **k), token, ready, moved
    )
    handlers: Any = fleet_handlers
    handlers.push_messages = replies_only(handlers.push_messages, tell)
    sys.argv = ["flower-superlink", *_arguments(server, host, insecure)]  # read there alone
    flower_superlink()


def _arguments(server: ServerFolder, host: str, insecure: bool) -> list[str]:
    """Writes the command line with which Flower's server is started."""
    security = ["--insecure"]
    if not insecure:
        security = [
            "--ssl-ca-certfile", str(server.authority), "--ssl-certfile", str(server.certificate),
            "--ssl-keyfile", str(server.key), "--enable-supernode-auth",
        ]  # fmt: skip
    return [
        *security, "--host", host, "--port", str(server.federation.port),
        "--database", str(server.database), "--disable-runtime-dependency-installation",
        "--isolation", "process", "--superexec-auth-secret-file", str(server.secret),
    ]  # fmt: skip
