"""Enrols the parties' keys at the running server, and tells which parties come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ofcl.federation.server_side.flower_control import FlowerControl, ServerUnreachable
from ofcl.federation.setup.folders import FILE, Federation, ServerFolder, load_server
from ofcl.federation.status_file import StatusFile

DOORS = "connected.json"  # who is connected, for `ofcl federation watch`
LOOK_AGAIN = 1.0  # seconds between two looks at the federation's file
LOOK_WHO = 10.0  # seconds between two looks at who is connected, if nobody comes or goes
AT_ONCE = 0.2  # seconds between two looks in any case
STARTING = 30.0  # seconds that a server may take until it answers


class Doorkeeper:
    """Enrols the keys of the parties at the running server, and tells which parties come and go.

    When a party is added or removed, the keys are enrolled anew.

    Args:
        server: The server's folder.
        insecure: Whether to speak to the server without TLS.
        ready: An event that is set here when the keys have been enrolled for the first time.
        moved: An event that is set when a party comes or goes.
        tell: Is given each line for the user.
    """

    def __init__(
        self,
        server: ServerFolder,
        *,
        insecure: bool,
        ready: threading.Event,
        moved: threading.Event,
        tell: Callable[[str], None],
    ) -> None:
        self._server, self._insecure, self._ready, self._tell = server, insecure, ready, tell
        self._control = FlowerControl(server, insecure=insecure)
        self._enrolled: Federation | None = None  # the federation whose keys are enrolled
        self._connected: set[str] = set()
        self._status = StatusFile(server.folder / "server" / DOORS, {"parties": {}})
        self._moved, self._looked = moved, -LOOK_WHO
        self._file = 0  # when the federation's file was last changed

    def watch(self) -> None:
        """Enrols changed keys and tells who comes and goes, for ever; a problem is told once."""
        until = time.monotonic() + STARTING
        last_problem = ""
        while True:
            problem = ""
            try:
                self._look()
            except ServerUnreachable as error:  # not up yet, or busy
                if self._enrolled is None and time.monotonic() > until:
                    problem = f"the server does not answer at {self._server.here} ({error})"
                self._file = 0  # it looks again soon
            except Exception as error:  # refusing parties depends on this thread: it goes on
                problem = f"{type(error).__name__}: {error}"
                self._file = 0
            if problem and problem != last_problem:
                self._tell(f"warning: {problem}")
            last_problem = problem
            self._wait()

    def _wait(self) -> None:
        """Waits until a party comes or goes, the federation changes, or some seconds are over.

        A look costs the server some ten milliseconds, so an idle server looks seldom.
        """
        time.sleep(AT_ONCE)
        while self._enrolled is not None and time.monotonic() - self._looked < LOOK_WHO:
            if self._moved.wait(LOOK_AGAIN) or self._changed() != self._file:
                return

    def _changed(self) -> int:
        """Tells when the federation's file was last changed."""
        try:
            return (self._server.folder / FILE).stat().st_mtime_ns
        except OSError:  # it is being replaced, or gone: the look says so
            return -1

    def _look(self) -> None:
        """Enrols the keys if the federation has changed; tells which parties have come or gone."""
        self._moved.clear()
        self._looked, self._file = time.monotonic(), self._changed()
        now = load_server(self._server.folder)
        if now.federation != self._enrolled:
            self._control.register(now)
            if self._enrolled is None:
                self._tell_listening(now.federation)
            self._enrolled = now.federation
            self._ready.set()
        nodes = self._control.nodes()
        connected = {name for name, node in nodes.items() if node.online}
        present = len(now.federation.present)
        for party in sorted(connected ^ self._connected):
            state = "is connected" if party in connected else "has gone"
            self._tell(f"{party} {state} ({len(connected)} of {present})")
        self._connected = connected
        noted = {name: {"connected": node.online, "since": node.since}
                 for name, node in nodes.items()}  # fmt: skip
        if noted != self._status.facts["parties"]:
            self._status.facts["parties"] = noted
            self._status.write()
        self._status.look()

    def _tell_listening(self, federation: Federation) -> None:
        """Tells the user where the server listens, and how it is protected."""
        protected = "NOT encrypted" if self._insecure else "TLS, keys of the parties"
        self._tell(f"'{federation.name}' listens on port {federation.port} ({protected})")


def await_enrolment(
    server: ServerFolder,
    party: str,
    *,
    enrolled: bool,
    insecure: bool,
    tell: Callable[[str], None],
) -> None:
    """Waits until the running server knows that a party was added or removed, and tells the user.

    It does not wait if no server answers, nor longer than half a minute.

    Args:
        server: The server's folder.
        party: The name of the party.
        enrolled: True: the party was added, and the server must let it in. False: the party was
            removed, and the server must refuse it.
        insecure: Whether to speak to the server without TLS.
        tell: Is given each line for the user.
    """
    until = time.monotonic() + STARTING
    while time.monotonic() < until:
        try:
            known = party in FlowerControl(server, insecure=insecure).nodes()
        except ServerUnreachable:
            tell(
                f"no server at {server.here}: it will see this when it starts. If it runs "
                f"elsewhere, copy {server.folder}/server there first, then {FILE}"
            )
            return
        if known == enrolled:
            tell(f"the server lets {party} in" if enrolled else f"the server refuses {party} now")
            return
        time.sleep(0.2)
    tell(f"warning: the server at {server.here} has not taken it up; its log says why")
