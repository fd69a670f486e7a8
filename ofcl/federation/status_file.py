"""A small file in which a process notes how it is, for `ofcl federation watch`.

It is replaced whole, so a reader never sees half of it. It has the newest facts and the last lines
of the log alone: it does not grow with the run. Its time of change is a sign of life.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ofcl.storage.atomic_files import replace_whole

FILE = "status.json"
MOST_LINES = 60  # lines of the log that are kept
LONGEST_LINE = 600  # characters of a line
BETWEEN = 0.5  # seconds between two writes
SIGN_OF_LIFE = 5.0  # seconds between two signs of life of a process that notes nothing
MOST_BYTES = 2**20  # a larger file was not written by this package

Facts = dict[str, Any]


class StatusFile:
    """Keeps the facts of a process, and writes them when they have changed.

    Args:
        path: The file.
        facts: The facts to begin with.
        clock: Gives the time of day, in seconds.
        between: Seconds between two writes.

    Attributes:
        facts: The facts, which the owner changes and then calls `changed`.
    """

    def __init__(
        self,
        path: Path,
        facts: Facts,
        clock: Callable[[], float] = time.time,
        between: float = BETWEEN,
    ) -> None:
        self._path, self._clock, self._between = path, clock, between
        self.facts: Facts = {"lines": [], **facts, "began": clock()}
        self._written, self._dirty = 0.0, True
        self.write()

    def now(self) -> float:
        """Gives the time of day, in seconds."""
        return self._clock()

    def line(self, text: str) -> None:
        """Notes a line of the log; only the last ones are kept.

        Args:
            text: The line.
        """
        lines = self.facts["lines"]
        lines.append([round(self.now(), 1), text[:LONGEST_LINE]])
        del lines[:-MOST_LINES]
        self.changed()

    def changed(self) -> None:
        """Notes that facts have changed: they are written now, or with a later call of `look`."""
        self._dirty = True
        self.look()

    def look(self) -> None:
        """Writes the facts if they are due."""
        since = self.now() - self._written
        if (self._dirty and not 0 <= since < self._between) or since >= SIGN_OF_LIFE:
            self.write()

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """Gives signs of life within the context, also while the process is busy for long."""
        over = threading.Event()

        def touch() -> None:
            while not over.wait(SIGN_OF_LIFE):
                with contextlib.suppress(OSError):
                    os.utime(self._path)

        thread = threading.Thread(target=touch, name="sign of life", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def write(self) -> None:
        """Writes the facts. A full disk does not end the run: the file is then an old one."""
        self._written, self._dirty = self.now(), False
        try:
            replace_whole(self._path, json.dumps(self.facts))
        except OSError:
            self._dirty = True


def read_status(path: Path) -> Facts:
    """Reads the facts that a process has noted; none if there are none or they are damaged.

    Args:
        path: The file.

    Returns:
        The facts, and with `written` the time of the last sign of life.
    """
    try:
        at = path.stat()
        if at.st_size > MOST_BYTES:
            return {}
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {**facts, "written": round(at.st_mtime, 1)} if isinstance(facts, dict) else {}
