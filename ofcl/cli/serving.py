"""The terminal of a federation's server: who is let in, and who comes and goes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from ofcl.cli.terminal import say, warn
from ofcl.errors import OfclError
from ofcl.federation.server_side.flower_server import control, nodes, register
from ofcl.federation.setup import folders
from ofcl.federation.setup.folders import Federation, ServerFolder, load_server

LOOK_AGAIN = 1.0  # seconds between two looks at who is connected
STARTING = 30.0  # seconds after which a server should answer


def watch(here: ServerFolder, insecure: bool, ready: threading.Event, console: Console) -> None:
    """Enrols the parties' keys, and strikes off those that leave; tells who comes and goes."""
    import httpx

    client, until = control(here, insecure=insecure), time.monotonic() + STARTING
    known: Federation | None = None
    before: set[str] = set()
    told = ""
    while True:
        problem = ""
        try:
            now = load_server(here.folder)
            if now.federation != known:
                register(client, now)
                if known is None:
                    protected = "NOT encrypted" if insecure else "TLS, keys of the parties"
                    where = f"'{now.federation.name}' listens on port {now.federation.port}"
                    console.print(f"{where} ({protected})")
                known = now.federation
                ready.set()
            there = {n for n, node in nodes(client).items() if node.status == "online"}
            for party in sorted(there ^ before):
                state = "is connected" if party in there else "has gone"
                console.print(f"{party} {state} ({len(there)} of {len(known.present)})")
            before = there
        except httpx.TransportError as error:  # not up yet, or busy
            if known is None and time.monotonic() > until:
                problem = f"the server does not answer at {here.here} ({error})"
        except Exception as error:  # whoever must be refused depends on this thread: it goes on
            problem = f"{type(error).__name__}: {error}"
        if problem and problem != told:
            console.print(f"warning: {problem}")
        told = problem
        time.sleep(LOOK_AGAIN if known else 0.2)


def await_server(here: ServerFolder, party: str, *, enrolled: bool, insecure: bool) -> None:
    """Waits until the server on this machine has seen that a party came or left, and says so."""
    import httpx

    until = time.monotonic() + STARTING
    while time.monotonic() < until:
        try:
            known = party in nodes(control(here, insecure=insecure))
        except httpx.TransportError:
            say(f"no server at {here.here}: it will see this when it starts. If it runs elsewhere, "
                f"copy {here.folder}/server there first, then {folders.FILE}")  # fmt: skip
            return
        if known == enrolled:
            say(f"the server lets {party} in" if enrolled else f"the server refuses {party} now")
            return
        time.sleep(0.2)
    warn(f"the server at {here.here} has not taken it up; its log says why")


def check_port(host: str, port: int) -> None:
    """Refuses a port that somebody else has."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            raise OfclError(f"cannot listen on {host}:{port}: {error.strerror}") from None


@contextmanager
def quiet_but_for(log: Path) -> Iterator[Console]:
    """Sends what Flower prints to a file; the console that is given still is the terminal."""
    kept = os.dup(2)
    with os.fdopen(kept, "w", buffering=1) as terminal, log.open("ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        yield Console(file=terminal, highlight=False, markup=False, soft_wrap=True)
