"""The runs of a federation: one at a time, and the newest can be resumed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ofcl.errors import OfclError
from ofcl.federation.setup.folders import ServerFolder
from ofcl.storage.atomic_files import write_whole
from ofcl.storage.locks import try_lock
from ofcl.storage.run_directory import RunDirectory

STOPPING = 60.0  # seconds that a run may take to save and end


class Runs:
    """A federation's runs: which is the newest, and whether a process is running it.

    Args:
        server: The server's folder.
    """

    def __init__(self, server: ServerFolder) -> None:
        self._server = server
        self._lock = server.folder / "server" / "run.lock"
        self._process = server.folder / "server" / "run.process"

    @contextmanager
    def only(self) -> Iterator[None]:
        """Lets no other process run a run of this federation, within the context.

        Raises:
            OfclError: If another process is running one.
        """
        lock = try_lock(self._lock)
        if lock is None:
            raise OfclError("a run is going on; stop it first: ofcl federation stop")
        with lock:
            write_whole(self._process, str(os.getpid()))  # `stop` reads it
            yield

    @property
    def going_on(self) -> bool:
        """Whether a process is running a run."""
        if not self._lock.exists():
            return False
        lock = try_lock(self._lock)
        if lock is not None:
            lock.close()
        return lock is None

    def stop(self) -> None:
        """Ends the run that is going on, and waits until its process has saved it.

        Windows has no signal that another process can save a run at: there, the process ends at
        once, and the run goes on from its last checkpoint.

        Raises:
            OfclError: If no run is going on, or it takes too long.
        """
        if not self.going_on:
            raise OfclError("no run is going on")
        process = int(self._process.read_text(encoding="ascii"))
        os.kill(process, signal.SIGTERM)
        until = time.monotonic() + STOPPING
        while self.going_on:
            if time.monotonic() > until:
                raise OfclError(
                    "the run has not ended yet; look again with: ofcl federation status"
                )
            time.sleep(0.1)

    def begin(self, path: Path) -> None:
        """Writes down a run as the newest, which `status` shows and `--resume` goes on with.

        Args:
            path: The run's directory.
        """
        write_whole(self._server.current, json.dumps({"run": str(path.resolve())}))

    def last(self) -> RunDirectory | None:
        """Finds the newest run, finished or not; None: there was no run yet."""
        if not self._server.current.exists():
            return None
        return RunDirectory(json.loads(self._server.current.read_text(encoding="utf-8"))["run"])

    def unfinished(self) -> RunDirectory | None:
        """Finds the newest run if it has begun and is not finished; None: nothing to resume."""
        run = self.last()
        return run if run is not None and run.started() and run.result() is None else None

    def new_directory(self) -> Path:
        """Chooses a directory for a new run, named by the time."""
        name = time.strftime("%Y%m%d-%H%M%S")
        path, again = self._server.runs / name, 1
        while path.exists():
            path, again = self._server.runs / f"{name}-{again}", again + 1
        return path
