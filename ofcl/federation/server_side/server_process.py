"""Running a federation's server: everything that `ofcl federation server` starts."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ofcl.errors import OfclError, printable
from ofcl.federation.server_side.enrolment import Doorkeeper
from ofcl.federation.server_side.flower_server import serve
from ofcl.federation.setup.folders import ServerFolder, is_loopback


def default_host(server: ServerFolder, *, insecure: bool) -> str:
    """Chooses the address to listen on: every address, or loopback if no other machine may call.

    Args:
        server: The server's folder.
        insecure: Whether the server listens without TLS: then only this machine may call it.
    """
    alone = insecure or all(map(is_loopback, server.federation.hosts))
    return "127.0.0.1" if alone else "0.0.0.0"


def run_server(
    server: ServerFolder,
    host: str,
    *,
    insecure: bool = False,
    tell: Callable[[str], None] = print,
    line: Callable[[str], str] = str,
) -> None:
    """Runs the server in this process until it is stopped; it keeps its state on the disk.

    While the server runs, everything that this process prints goes to `server/server.log`. Only a
    line when a party comes or goes is still printed to the terminal.

    Args:
        server: The server's folder.
        host: The address to listen on.
        insecure: Whether to listen without TLS, and ask parties for no key.
        tell: Is given the lines for the user that come before the server listens.
        line: Writes a line as the log does; it is printed to the terminal.

    Raises:
        OfclError: If the certificate is not for this host, or the port is taken.
        SystemExit: When the server has ended.
    """
    server.listen_on(host)
    check_port(host, server.federation.port)
    if not insecure and (expiry := server.expiry()):
        tell(f"warning: {expiry}")
    log = server.folder / "server" / "server.log"
    ready, moved = threading.Event(), threading.Event()
    with _printing_to(log, line) as tell_terminal:
        threading.Thread(
            target=lambda: Doorkeeper(
                server, insecure=insecure, ready=ready, moved=moved, tell=tell_terminal
            ).watch(),
            name="status",
            daemon=True,
        ).start()
        try:
            serve(server, host, ready, moved, insecure=insecure, tell=tell_terminal)
        except SystemExit as error:
            if error.code not in (0, None):
                tell_terminal(f"error: the server has ended; '{log}' says why")
            raise


def check_port(host: str, port: int) -> None:
    """Refuses a port that another process listens on.

    Args:
        host: The address to listen on.
        port: The port to listen on.

    Raises:
        OfclError: If the port cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            raise OfclError(f"cannot listen on {host}:{port}: {error.strerror}") from None


@contextmanager
def _printing_to(log: Path, line: Callable[[str], str]) -> Iterator[Callable[[str], None]]:
    """Redirects this process's output to a file; gives a function that prints to the terminal."""
    with os.fdopen(os.dup(2), "w", buffering=1) as terminal, log.open("ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        yield lambda text: print(line(printable(text)), file=terminal)
