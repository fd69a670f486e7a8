"""A feed of the files that appear in a folder."""

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

Stamp = list[int]
"""Size and time of the last change of a file; a list, as checkpoints have it."""


class WatchedFolder:
    """Samples of the files that appear in a folder: images in subfolders by class, tables, npz.

    A file is read when it has not changed for a moment; several such files are read in the order of
    their names. Rows that are added to a table later are read too. A program that writes files
    should write them to another folder and rename the finished files into this one. Hidden files,
    unfinished files and run directories are passed over.

    Args:
        path: The folder.
        how: The options of reading.
        task: The column of tables whose value changes when a task ends; None: there is none.
        idle: The seconds without a new file after which the feed ends; None: it never ends.

    Raises:
        OfclError: There is no such folder.
    """

    rereads = True

    def __init__(
        self, path: Path, how: Reading, task: str | None = None, idle: float | None = None
    ) -> None:
        if not path.is_dir():
            raise OfclError(f"'{path}' is not a folder; make it, then files that appear are read")
        self._path, self._how, self._task, self._idle = path, how, task, idle
        # For each file: its stamp, and the numbers of rows and of damaged lines that it had then.
        self.known: State = {"read": {}}

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """Yields the samples of the files in the folder, then of files that appear or grow.

        An empty list means that there is nothing new.

        Args:
            taken: For each source, a file in the folder, the number of its rows that were learned
                already.
        """
        read: dict[str, list[int]] = self.known["read"]
        # Files of which fewer rows were learned than read, or more (they had grown since they were
        # last read to the end), are read again.
        partly_learned = [name for name, entry in read.items() if taken.get(name, -1) != entry[2]]
        for name in partly_learned:
            del read[name]
        reader = SampleReader(self._how, self._task, self.known)
        watch = _Watch(self._path)
        last_news = time.monotonic()
        while True:
            for name, stamp in watch.settled(read):
                # Rows that were read and not learned yet are pending: they must not come twice.
                at = Position(*read[name][2:]) if name in read else Position(taken.get(name))
                yield from _by_row(reader.read_file(self._path / name, name, at))
                read[name] = [*stamp, at.rows or 0, at.damaged or 0]
                last_news = time.monotonic()
            if watch.settling:
                last_news = time.monotonic()
            if self._idle is not None and time.monotonic() - last_news >= self._idle:
                return
            yield []


def _by_row(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """Yields lists of a sample and the damaged lines after it, which have no row of their own.

    So the damaged lines are reported before the sample is learned.

    Args:
        samples: The samples of a file; a damaged line has the row of the sample before it.
    """
    group: list[Sample] = []
    for sample in samples:
        if group and sample.row > group[-1].row:
            yield group
            group = []
        group.append(sample)
    if group:
        yield group


class _Watch:
    """Looks for changed files in a folder from time to time, and waits until they have settled.

    A file has settled when it has not changed for half a second.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._last_look = path, -LOOK
        # Files that may still be changing: their stamp, and since when they have had it.
        self._unsettled: dict[str, tuple[Stamp, float]] = {}

    @property
    def settling(self) -> bool:
        """Whether the last look saw files that may still be changing."""
        return bool(self._unsettled)

    def settled(self, read: Mapping[str, list[int]]) -> list[tuple[str, Stamp]]:
        """Lists the new or changed files that have settled; [] if the last look was a moment ago.

        Args:
            read: For each file that was read, a list that begins with its stamp at that time.

        Returns:
            The name and the stamp of each file, sorted by name.
        """
        now = time.monotonic()
        if now - self._last_look < LOOK:
            return []
        self._last_look = now
        settled, unsettled = [], {}
        for path in visible_files(str(self._path)):
            name = os.path.relpath(path, self._path)
            try:
                status = os.stat(path)
            except OSError:  # deleted since the folder was listed
                continue
            stamp = [status.st_size, status.st_mtime_ns]
            if name in read and read[name][:2] == stamp:
                continue
            stamp_before, since = self._unsettled.get(name, (stamp, now))
            if stamp != stamp_before:
                since = now
            if now - since >= SETTLED:
                settled.append((name, stamp))
            else:
                unsettled[name] = stamp, since
        self._unsettled = unsettled
        return sorted(settled)


def changed_files(folder: Path, read: Mapping[str, list[int]]) -> list[str]:
    """Lists the files in a folder that were never read, or have changed since.

    Args:
        folder: The folder.
        read: For each file that was read, a list that begins with its stamp at that time.

    Returns:
        The names of the files, sorted.
    """
    found = []
    for path in visible_files(str(folder)):
        name, status = os.path.relpath(path, folder), os.stat(path)
        if name not in read or read[name][:2] != [status.st_size, status.st_mtime_ns]:
            found.append(name)
    return sorted(found)


def visible_files(folder: str) -> Iterator[str]:
    """Yields the paths of the files below a folder, at any depth.

    Hidden files and folders, unfinished files and run directories are left out.

    Args:
        folder: The folder.
    """
    for below, folders, names in os.walk(folder):
        if "settings.toml" in names:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and not name.endswith(UNFINISHED):
                yield os.path.join(below, name)
