"""Where live samples come from: an iterator, a folder that is watched, standard input."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from torch import Tensor

from ofcl.data.live.rows import Position, Rows
from ofcl.data.live.sample import Feed, Sample, StreamError
from ofcl.data.options import Reading
from ofcl.errors import OfclError
from ofcl.state import State

WATCH, STDIN = "watch:", "-"
SETTLED = 0.5  # seconds in which a file must not have changed to be read
LOOK = 0.5  # seconds between two looks at a folder
UNFINISHED = (".tmp", ".part", ".partial")  # endings of files that are still being written

Items = Iterable[Any]
"""What an iterator brings: (x, y) or (x, y, task), of a sample or a batch; None: nothing now."""


def open_feed(name: str, how: Reading, task: str | None, idle: float | None) -> Feed:
    """A feed by the name that the command line has for it."""
    if name == STDIN:
        if sys.stdin is None:
            raise OfclError("standard input is closed; nothing can be read from it")
        return JsonLines(sys.stdin.buffer, how, task)
    if name.startswith(WATCH):
        return WatchedFolder(Path(name.removeprefix(WATCH)), how, task, idle)
    raise OfclError(f"unknown stream '{name}'; expected {WATCH}FOLDER, or {STDIN} (standard input)")


class IteratorFeed:
    """Samples of any iterable, or of a function that opens one behind so many samples.

    What can be gone through again, such as a list, is opened behind what was learned; an iterator
    goes on with what it brings next.
    """

    def __init__(self, items: Items | Callable[[int], Items]) -> None:
        self._items = items
        self.rereads = callable(items) or iter(items) is not items
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """The samples, those of an item at once."""
        start = taken.get("", 0)
        items = self._items(start) if callable(self._items) else self._items
        row = start if callable(self._items) or not self.rereads else 0
        for item in items:
            samples = [] if item is None else samples_of_item(item, row)
            row += len(samples)
            fresh = [sample for sample in samples if sample.row >= start]
            if fresh or not samples:
                yield fresh
        if row < start:
            raise StreamError(
                f"there are {row} samples, but {start} were learned; for what comes behind those "
                "give an iterator"
            )


def samples_of_item(item: Any, row: int) -> list[Sample]:
    """The samples of what an iterator brings: one, or a batch with a task or a task each."""
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        problem = f"a stream brings (x, y) or (x, y, task), not a {type(item).__name__}"
        return [Sample(None, None, None, "", row, problem)]
    x, y, task = (*item, None)[:3]
    y, task = (v.tolist() if isinstance(v, Tensor | np.ndarray) else v for v in (y, task))
    if not isinstance(y, list | tuple):
        return [Sample(x, y, task, "", row)]
    tasks = task if isinstance(task, list | tuple) else [task] * len(y)
    if not len(x) == len(y) == len(tasks):
        problem = f"a batch of {len(x)} samples with {len(y)} labels and {len(tasks)} tasks"
        return [Sample(None, None, None, "", row, problem)]
    return [Sample(*one, "", row + n) for n, one in enumerate(zip(x, y, tasks, strict=True))]


class JsonLines:
    """Samples as lines of JSON, from a file or a pipe.

    A file is opened again where it was. A pipe brings what comes next; what was read of it and not
    yet handed out is kept.
    """

    def __init__(self, file: IO[bytes], how: Reading, task: str | None = None) -> None:
        self._file, self._how, self._task = file, how, task
        self.rereads = file.seekable()
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[list[Sample]]:
        """The samples of the lines, as they come."""
        source = "standard input"
        rows, start = Rows(self._how, self._task, self.known), taken.get(source, 0)
        row = 0 if self.rereads else start
        for line in self._again() if self.rereads else self._piped():
            if line is None:
                yield []
                continue
            if row >= start and line.strip():
                yield [rows.of_line(line, source, row)]
            row += 1
        if start and row <= start and (row < start or not self.rereads):
            raise StreamError(
                f"standard input has nothing behind the {start} lines that were learned; give it "
                "what comes next, for example: tail -f FILE | ofcl resume DIRECTORY; if that was "
                "all, an empty line: echo | ofcl resume DIRECTORY"
            )

    def _again(self) -> Iterator[bytes]:
        self._file.seek(0)
        yield from self._file

    def _piped(self) -> Iterator[bytes | None]:
        """Lines of a pipe without waiting for them: None where there is none yet.

        Read from the descriptor: a thread that waits in a buffered file cannot be stopped.
        """
        descriptor = self._file.fileno()
        left = self.known.get("left", "").encode("latin1")
        while True:
            *lines, left = left.split(b"\n")
            for n, line in enumerate(lines):
                self.known["left"] = b"\n".join([*lines[n + 1 :], left]).decode("latin1")
                yield line
            if not select.select([descriptor], [], [], 0)[0]:
                yield None
                continue
            more = os.read(descriptor, 65536)
            if not more:
                self.known["left"] = ""
                if left:
                    yield left
                return
            left += more
            self.known["left"] = left.decode("latin1")


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
        rows, looks = Rows(self._how, self._task, self.known), _Looks(self._path)
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


def held_out_samples(path: Path, how: Reading, task: str | None, known: State) -> list[Sample]:
    """All samples of a file or folder at once, read as those of a stream are."""
    if not path.exists():
        raise OfclError(f"no file or folder '{path}' to test on")
    rows = Rows(how, task, known)
    files = sorted(map(Path, visible_files(str(path)))) if path.is_dir() else [path]
    folder = path if path.is_dir() else path.parent
    samples = [
        sample
        for file in files
        for sample in rows.of_file(file, str(file.relative_to(folder)), Position())
    ]
    for bad in samples:
        if bad.problem:
            raise OfclError(bad.problem)
    return samples
