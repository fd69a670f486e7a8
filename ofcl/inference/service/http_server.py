"""The server process: a socket, uvicorn on it, and an end that leaves nobody without an answer."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ofcl.errors import OfclError
from ofcl.inference.service.request_limits import Limits


@dataclass(frozen=True)
class Certificate:
    """The files of TLS.

    Args:
        certificate: The certificate, or the chain of certificates.
        key: Its private key.
    """

    certificate: Path
    key: Path


def open_socket(host: str, port: int) -> socket.socket:
    """Opens the socket to listen on.

    Args:
        host: The address.
        port: The port; 0: any that is free.

    Raises:
        OfclError: It cannot be opened.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(found[4][:2], family=found[0], backlog=2048)
    except OSError as error:
        raise OfclError(f"'{host}', port {port} cannot be listened on: {error}") from None


def run_server(
    app: ASGIApp, at: socket.socket, limits: Limits, certificate: Certificate | None = None
) -> None:
    """Answers requests until Ctrl-C or SIGTERM; requests that have begun are answered first.

    Args:
        app: The application.
        at: The socket to listen on.
        limits: The limits of connections and seconds.
        certificate: The files of TLS; None: nothing is encrypted.

    Raises:
        OfclError: The certificate cannot be used.
    """
    warnings.filterwarnings("ignore", module="PIL")  # they could quote what is in an image
    config = uvicorn.Config(
        app,
        http=cast(Any, _impatient(limits.seconds)),
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=min(limits.connections, _descriptors() - 64),
        timeout_graceful_shutdown=int(limits.seconds) + 1,
        ssl_certfile=certificate.certificate if certificate else None,
        ssl_keyfile=certificate.key if certificate else None,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise OfclError(f"the certificate cannot be used: {error}") from None
    with _signals_kept():
        uvicorn.Server(config).run(sockets=[at])


def _impatient(seconds: float) -> Callable[..., H11Protocol]:
    """Makes the protocol of connections, which closes those that send no request in time.

    Uvicorn itself would wait for ever.

    Args:
        seconds: The time for the headers of a request; up to twice that may pass.
    """

    def make(
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> H11Protocol:
        protocol = H11Protocol(config, server_state, app_state, _loop)
        loop = _loop or asyncio.get_running_loop()

        def look(before: object) -> None:
            """Closes the connection if it has been without a request since the last look."""
            request = protocol.cycle
            idle = request is None or request.response_complete
            if protocol not in server_state.connections:
                return
            if idle and request is before:
                protocol.transport.close()
                return
            loop.call_later(seconds, look, request)

        loop.call_later(seconds, look, None)
        return protocol

    return make


def _descriptors() -> int:
    """Allows as many open files as the system lets this process have, and returns how many."""
    try:
        import resource
    except ImportError:  # Windows has no such limit; 512 is what select can watch there
        return 512
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return 65536 if soft == resource.RLIM_INFINITY else soft


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """Lets the signals that have ended the server end nothing else; uvicorn sends them again."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
