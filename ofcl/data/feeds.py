"""Where live samples come from: an iterator, a folder that is watched, standard input."""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from torch import Tensor

from ofcl.data.columns import Meaning, find_meaning
from ofcl.data.images import Unreadable, is_image, read_image
from ofcl.data.live import ALL, Feed, Sample
from ofcl.data.own.arrays import read_arrays
from ofcl.data.reading import Damage, Reading
from ofcl.data.tables import Table, decode_line, parse_json_row, read_table, table_format
from ofcl.errors import OfclError
from ofcl.state import State

WATCH, STDIN = "watch:", "-"
DEEP = 65535.0  # the largest value of grey images of 16 bits; of a stream nobody has seen all
SETTLED = 0.5  # seconds in which a file must not have changed to be read

Items = Iterable[Any]
"""What an iterator brings: (x, y) or (x, y, task), of a sample or a batch; None: nothing now."""


def open_feed(name: str, how: Reading, task: str | None, idle: float | None) -> Feed:
    """A feed by the name that the command line has for it."""
    if name == STDIN:
        return JsonLines(sys.stdin.buffer, how, task)
    if name.startswith(WATCH):
        return WatchedFolder(Path(name.removeprefix(WATCH)), how, task, idle)
    raise OfclError(f"unknown stream '{name}'; expected {WATCH}FOLDER, or {STDIN} (standard input)")


class IteratorFeed:
    """Samples of any iterable, or of a function that opens one behind so many samples."""

    def __init__(self, items: Items | Callable[[int], Items]) -> None:
        self._items = items
        self.rereads = callable(items)
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[Sample | None]:
        """The samples; those of an iterable are what it brings next."""
        start = taken.get("", 0)
        items = self._items(start) if callable(self._items) else self._items
        row = start
        for item in items:
            if item is None:
                yield None
                continue
            for x, y, task in _samples(item):
                yield Sample(x, y, task, "", row)
                row += 1


def _samples(item: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The samples of one item: a single one, or a batch."""
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise OfclError(f"a stream brings (x, y) or (x, y, task), not a {type(item).__name__}")
    x, y, task = (*item, None)[:3]
    if isinstance(y, Tensor):
        y = y.tolist()
    if isinstance(y, str | bytes) or np.ndim(y) == 0:
        yield x, y, task
        return
    if len(x) != len(y):
        raise OfclError(f"a stream brought {len(x)} samples with {len(y)} labels")
    for one, label in zip(x, y, strict=True):
        yield one, label, task


class JsonLines:
    """Samples as lines of JSON, from a pipe or a file that is standard input."""

    def __init__(self, file: IO[bytes], how: Reading, task: str | None = None) -> None:
        self._file, self._how, self._task = file, how, task
        self.rereads = file.seekable()
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[Sample | None]:
        """The samples of the lines, as they come."""
        source = "standard input"
        skip = taken.get(source, 0) if self.rereads else 0
        if self.rereads:
            self._file.seek(0)
        row = skip if self.rereads else taken.get(source, 0)
        lines: queue.Queue[bytes | None] = queue.Queue(maxsize=1000)
        threading.Thread(target=self._read, args=(lines, skip), daemon=True).start()
        rows = _Rows(self._how, self._task, self.known, source)
        while True:
            try:
                line = lines.get(timeout=0.02)
            except queue.Empty:
                yield None
                continue
            if line is None:
                return
            if line.strip():
                yield rows.of_line(line, row)
            row += 1

    def _read(self, lines: queue.Queue[bytes | None], skip: int) -> None:
        for number, line in enumerate(self._file):
            if number >= skip:
                lines.put(line)
        lines.put(None)


class WatchedFolder:
    """Files that appear in a folder: images in subfolders by class, tables, npz.

    A file is read once, when it has not changed for a moment; files of one look come by name. Who
    writes there should write elsewhere and rename into place. Hidden files, and those that end with
    .tmp or .partial, are not looked at.
    """

    rereads = True

    def __init__(
        self, path: Path, how: Reading, task: str | None = None, idle: float | None = None
    ) -> None:
        if not path.is_dir():
            raise OfclError(f"'{path}' is not a folder; make it, then files that appear are read")
        self._path, self._how, self._task, self._idle = path, how, task, idle
        self.known: State = {}

    def open(self, taken: Mapping[str, int]) -> Iterator[Sample | None]:
        """The samples of files, old ones first, then those that appear."""
        done = {source for source, rows in taken.items() if rows == ALL}
        rows = _Rows(self._how, self._task, self.known)
        since = time.monotonic()
        while True:
            for path in self._files(done):
                name = str(path.relative_to(self._path))
                done.add(name)
                yield from rows.of_file(path, name, taken.get(name, 0))
                since = time.monotonic()
            if self._idle is not None and time.monotonic() - since >= self._idle:
                return
            yield None

    def _files(self, done: set[str]) -> list[Path]:
        found, now = [], time.time()
        for path in visible_files(self._path):
            if str(path.relative_to(self._path)) in done:
                continue
            try:
                settled = now - path.stat().st_mtime >= SETTLED
            except OSError:  # it has just gone again
                continue
            if settled:
                found.append(path)
        return sorted(found)


def visible_files(folder: Path) -> Iterator[Path]:
    """The files below a folder, but for hidden and partial ones."""
    for below, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith(".") and not name.endswith((".tmp", ".partial")):
                yield Path(below) / name


def samples_of(path: Path, how: Reading) -> list[Sample]:
    """All samples of a file or folder at once, for testing."""
    rows = _Rows(how, None, {})
    files = sorted(visible_files(path)) if path.is_dir() else [path]
    samples = [s for file in files for s in rows.of_file(file, file.name, 0)]
    for bad in samples:
        if bad.problem:
            raise OfclError(bad.problem)
    return samples


class _Rows:
    """Reads files and lines of one stream; what columns mean, the first one decides."""

    def __init__(self, how: Reading, task: str | None, known: State, source: str = "") -> None:
        self._how, self._task, self._known, self._source = how, task, known, source

    def of_file(self, path: Path, source: str, start: int) -> Iterator[Sample]:
        """The samples of a file from a row on."""
        try:
            if is_image(path):
                image = read_image(path, self._how.image_size, top=DEEP)
                yield Sample(image, path.parent.name, None, source, 0, last=True)
            elif path.suffix.lower() == ".npz":
                yield from self._of_arrays(path, source, start)
            elif table_format(path):
                yield from self._of_table(path, source, start)
            else:
                yield _bad(source, 0, f"'{source}' is no image, table or npz")
        except (OfclError, Unreadable) as error:
            yield _bad(source, 0, str(error))

    def of_line(self, line: bytes, row: int) -> Sample:
        """The sample of a line of JSON."""
        try:
            values = parse_json_row(decode_line(self._source, row + 1, line))
            columns = {name: [value] for name, value in values.items()}
            meaning = self._meaning(Table(self._source, columns, [row + 1]))
            return self._of_row(meaning, values, self._source, row, last=False)
        except (OfclError, ValueError) as error:
            return _bad(self._source, row, f"{self._source}, line {row + 1}: {error}", last=False)

    def _of_table(self, path: Path, source: str, start: int) -> Iterator[Sample]:
        damage = Damage(self._how.on_bad)
        table = read_table(path, damage)
        meaning = self._meaning(table)
        if start == 0:
            for problem in damage.problems:
                yield _bad(source, -1, problem, last=False)
        if not len(table):
            yield _bad(source, 0, f"'{source}' has no rows")
        for row in range(start, len(table)):
            values = {name: column[row] for name, column in table.columns.items()}
            last = row == len(table) - 1
            try:
                yield self._of_row(meaning, values, source, row, last)
            except ValueError as error:
                yield _bad(source, row, f"'{source}', line {table.lines[row]}: {error}", last)

    def _of_row(
        self, meaning: Meaning, values: Mapping[str, Any], source: str, row: int, last: bool
    ) -> Sample:
        x, label = meaning.read(values)
        task = values.get(self._task) if self._task else None
        return Sample(x, label, task, source, row, last)

    def _of_arrays(self, path: Path, source: str, start: int) -> Iterator[Sample]:
        arrays = read_arrays(path)
        keys = next((k for k in (("x", "y"), ("images", "labels"), ("x_train", "y_train"))
                     if set(k) <= arrays.keys()), None)  # fmt: skip
        if keys is None or len(arrays[keys[0]]) != len(arrays[keys[1]]):
            raise OfclError(f"'{source}' needs arrays x and y of one length")
        x, y = (arrays[key] for key in keys)
        for row in range(start, len(y)):
            label = y[row].tolist() if np.ndim(y[row]) == 0 else y[row][0].tolist()
            yield Sample(x[row], label, None, source, row, last=row == len(y) - 1)

    def _meaning(self, table: Table) -> Meaning:
        """What the columns mean; a table that lacks one of them is refused."""
        if "columns" not in self._known:
            # The column of the tasks is not one of the numbers.
            columns = {n: c for n, c in table.columns.items() if n != self._task}
            found = find_meaning(Table(table.name, columns, table.lines), self._how)
            self._known |= {"label": found.label, "kind": found.kind, "columns": found.columns}
        known = self._known
        meaning = Meaning(known["label"], known["kind"], tuple(known["columns"]))
        for name in (meaning.label, *meaning.columns):
            table.column(name)
        return meaning


def _bad(source: str, row: int, problem: str, last: bool = True) -> Sample:
    return Sample(None, None, None, source, row, last, problem)
