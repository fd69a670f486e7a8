"""Samples of the files and lines of one stream; what their columns mean, the first one decides."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ofcl.data.files.arrays import read_arrays
from ofcl.data.files.columns import Meaning, find_meaning
from ofcl.data.files.images import UNKNOWN, Unreadable, is_image, read_image
from ofcl.data.files.tables import Table, decode_line, parse_json_row, read_table, table_format
from ofcl.data.live.sample import Sample
from ofcl.data.options import Damage, Reading
from ofcl.errors import OfclError
from ofcl.state import State

ARRAYS = (("x", "y"), ("images", "labels"), ("x_train", "y_train"))


@dataclass
class Position:
    """How far a file has been read; None: it was not, or nobody knows."""

    rows: int | None = None
    damaged: int | None = None  # lines without a row, told of


class SampleReader:
    """Reads files and lines; in `known` it keeps what columns mean."""

    def __init__(self, how: Reading, task: str | None, known: State) -> None:
        self._how, self._task, self._known = how, task, known

    def of_file(self, path: Path, source: str, at: Position) -> Iterator[Sample]:
        """The samples of a file behind a position, which moves along.

        What is wrong with the file as a whole takes no row: it may be mended, and then all are
        read.
        """
        start = at.rows or 0
        try:
            for sample in self._samples(path, source, at):
                at.rows = max(at.rows or 0, sample.row + 1)
                yield sample
        except (OfclError, Unreadable) as error:
            if path.exists():  # else it has just gone again
                at.rows = start
                yield _bad(source, start - 1, str(error))

    def _samples(self, path: Path, source: str, at: Position) -> Iterator[Sample]:
        start = at.rows or 0
        if is_image(path):
            yield from self._of_image(path, source, start)
        elif path.suffix.lower() == ".npz":
            yield from self._of_arrays(path, source, start)
        elif table_format(path):
            yield from self._of_table(path, source, at)
        elif not start:
            yield _bad(source, 0, f"'{source}' is no image, table or npz")

    def of_line(self, line: bytes, source: str, row: int) -> Sample:
        """The sample of a line of JSON."""
        try:
            values = parse_json_row(decode_line(source, row + 1, line))
            columns = {name: [value] for name, value in values.items()}
            meaning = self._meaning(Table(source, columns, [row + 1]))
            return self._of_row(meaning, values, source, row)
        except (OfclError, ValueError) as error:
            return _bad(source, row, f"{source}, line {row + 1}: {error}")

    def _of_image(self, path: Path, source: str, start: int) -> Iterator[Sample]:
        if start:
            return
        if not Path(source).parent.name:
            raise OfclError(f"'{source}' lies in no subfolder, whose name would be its class")
        image = read_image(path, self._how.image_size, top=UNKNOWN)
        yield Sample(image, Path(source).parent.name, None, source, 0)

    def _of_table(self, path: Path, source: str, at: Position) -> Iterator[Sample]:
        damage = Damage(self._how.on_bad)
        table = read_table(path, damage)
        meaning = self._meaning(table)
        # Where damaged lines were: before which row. They are told with the row before them.
        places = [bisect(table.lines, line) for line in damage.lines]
        told = at.damaged
        if told is None:
            told = 0 if at.rows is None else bisect(places, at.rows)
        start, at.damaged = at.rows or 0, len(places)
        if at.rows is None and not len(table):
            yield _bad(source, -1, f"'{source}' has no rows")
        untold = list(zip(places, damage.problems, strict=True))[told:]
        for row in range(start, len(table) + 1):
            while untold and untold[0][0] <= row:
                yield _bad(source, row - 1, untold.pop(0)[1])
            if row == len(table):
                break
            values = {name: column[row] for name, column in table.columns.items()}
            try:
                yield self._of_row(meaning, values, source, row)
            except ValueError as error:
                yield _bad(source, row, f"'{source}', line {table.lines[row]}: {error}")

    def _of_row(self, meaning: Meaning, values: Mapping[str, Any], source: str, row: int) -> Sample:
        x, label = meaning.read(values)
        return Sample(x, label, values[self._task] if self._task else None, source, row)

    def _of_arrays(self, path: Path, source: str, start: int) -> Iterator[Sample]:
        arrays = read_arrays(path)
        keys = next((keys for keys in ARRAYS if set(keys) <= arrays.keys()), None)
        x, y = (arrays[key] for key in keys) if keys else (np.zeros(()),) * 2
        if not (x.ndim and y.ndim) or len(x) != len(y):
            raise OfclError(f"'{source}' needs arrays x and y of one length")
        for row in range(start, len(y)):
            label = y[row].tolist() if np.ndim(y[row]) == 0 else y[row].tolist()[0]
            yield Sample(x[row], label, None, source, row)

    def _meaning(self, table: Table) -> Meaning:
        """What the columns mean; a table that lacks one of them is refused."""
        if self._task is not None:
            table.column(self._task)
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


def _bad(source: str, row: int, problem: str) -> Sample:
    return Sample(None, None, None, source, row, problem)
