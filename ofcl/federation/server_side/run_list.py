"""The runs of a federation, at its server: one at a time, and the last can be gone on with."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ofcl.errors import OfclError
from ofcl.federation.setup.folders import ServerFolder
from ofcl.storage.atomic_files import write_whole
from ofcl.storage.run_directory import RunDirectory


class Runs:
    """Which run is going on or was last, and the process that runs it."""

    def __init__(self, server: ServerFolder) -> None:
        self._server = server
        self._lock = server.folder / "server" / "run.lock"

    @contextmanager
    def only(self) -> Iterator[None]:
        """This process is the one that runs; a second is refused."""
        with self._lock.open("a+", encoding="ascii") as file:
            if not _locked(file):
                raise OfclError("a run is going on; stop it first: ofcl federation stop")
            file.truncate(0)
            file.write(str(os.getpid()))  # for whoever wants to stop it
            file.flush()
            yield

    @property
    def going_on(self) -> bool:
        """Whether a process runs one."""
        if not self._lock.exists():
            return False
        with self._lock.open("a+", encoding="ascii") as file:
            return not _locked(file)

    @property
    def process(self) -> int:
        """The process that runs it."""
        return int(self._lock.read_text(encoding="ascii"))

    def begin(self, path: Path) -> None:
        """Notes which one is going on."""
        write_whole(self._server.current, json.dumps({"run": str(path.resolve())}))

    def last(self) -> RunDirectory | None:
        """The one that is going on, or was last; None: there was none yet."""
        if not self._server.current.exists():
            return None
        return RunDirectory(json.loads(self._server.current.read_text(encoding="utf-8"))["run"])

    def unfinished(self) -> RunDirectory | None:
        """The last one, if it can be gone on with."""
        run = self.last()
        return run if run is not None and run.started() and run.result() is None else None

    def new_directory(self) -> Path:
        """A place for a new one, named by the time."""
        name = time.strftime("%Y%m%d-%H%M%S")
        path, again = self._server.runs / name, 1
        while path.exists():
            path, again = self._server.runs / f"{name}-{again}", again + 1
        return path


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
