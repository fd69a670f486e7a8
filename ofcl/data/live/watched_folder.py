"""Watched folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ofcl.data.live.sample import Sample
from ofcl.data.live.sample_reader import Position, SampleReader
from ofcl.data.options import Reading
from ofcl.errors import OfclError
from ofcl.state import State

SETTLED = 0.5  # seconds in which a file must not have changed to be read


LOOK = 0.5  # seconds between two looks at a folder


UNFINISHED = (".tmp", ".part", ".partial")  # endings of files that are still being written


class WatchedFolder:
    """Files that appear in a folder: images in subfolders by class, tables, npz.

    A file is read when it has not changed for a moment; files of one look come by name. Rows that
    are added to a table later are read too. Who writes there should write elsewhere and rename into
    place. Hidden and unfinished files, and run directories, are not looked at.
    """

    rereads = True

    def __init__(
        self, path: Path, how: Reading, task: str | None = None, idle: float | None = None
    ) -> None:
        if not path.is_dir():
            raise OfclError(f"'{path}' is not a folder; make it, then files that appear are read")
        self._path, self._how, self._task, self._idle = path, how, task, idle
        # Of each file: size and time of change; how many rows and damaged lines it had then.
        self.known: State = {"read": {}}

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """The samples of files, old ones first, then those that appear."""
        read: dict[str, list[int]] = self.known["read"]
        # Of some not all was learned, or more: they had grown, and were not read to the end.
        other = [name for name, entry in read.items() if taken.get(name, -1) != entry[2]]
        for name in other:
            del read[name]
        rows, looks = SampleReader(self._how, self._task, self.known), _Looks(self._path)
        since = time.monotonic()
        while True:
            for name, mark in looks.changed(read):
                # What has come and was not taken yet is not to come again.
                at = Position(*read[name][2:]) if name in read else Position(taken.get(name))
                yield from _by_row(rows.of_file(self._path / name, name, at))
                read[name] = [*mark, at.rows or 0, at.damaged or 0]
                since = time.monotonic()
            if looks.settling:
                since = time.monotonic()
            if self._idle is not None and time.monotonic() - since >= self._idle:
                return
            yield []


def _by_row(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """Samples, each together with the damaged lines behind it, which have no row of their own.

    So who has taken a sample has told of these.
    """
    together: list[Sample] = []
    for sample in samples:
        if together and sample.row > together[-1].row:
            yield together
            together = []
        together.append(sample)
    if together:
        yield together


class _Looks:
    """Looks at a folder from time to time, and finds files that have settled since."""

    def __init__(self, path: Path) -> None:
        self._path, self._last = path, -LOOK
        self._seen: dict[str, tuple[list[int], float]] = {}

    @property
    def settling(self) -> bool:
        """Whether there are files that were still changing when it last looked."""
        return bool(self._seen)

    def changed(self, read: Mapping[str, list[int]]) -> list[tuple[str, list[int]]]:
        """Files that are new or have changed since they were read, by name, each with its mark."""
        now = time.monotonic()
        if now - self._last < LOOK:
            return []
        self._last, found, seen = now, [], {}
        for path in visible_files(str(self._path)):
            name = os.path.relpath(path, self._path)
            try:
                status = os.stat(path)
            except OSError:  # it has just gone again
                continue
            mark = [status.st_size, status.st_mtime_ns]
            if name in read and read[name][:2] == mark:
                continue
            before, since = self._seen.get(name, (mark, now))
            since = since if before == mark else now
            if now - since >= SETTLED:
                found.append((name, mark))
            else:
                seen[name] = mark, since
        self._seen = seen
        return sorted(found)


def visible_files(folder: str) -> Iterator[str]:
    """The files below a folder, but for hidden and unfinished ones and those of runs."""
    for below, folders, names in os.walk(folder):
        if "settings.toml" in names:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and not name.endswith(UNFINISHED):
                yield os.path.join(below, name)
