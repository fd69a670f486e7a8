"""Reading samples from files and lines, also from files that are still growing.

The first table or line decides what the columns mean in all others.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ofcl.data.files.arrays import read_arrays
from ofcl.data.files.cells import read_label
from ofcl.data.files.columns import Meaning, find_meaning
from ofcl.data.files.images import UnreadableImage, is_image, read_image
from ofcl.data.files.json_rows import parse_json_row
from ofcl.data.files.pixel_depth import UNKNOWN
from ofcl.data.files.tables import read_table, table_format
from ofcl.data.files.text_lines import decode_line
from ofcl.data.files.whole_table import Table
from ofcl.data.live.live_agreement import Row
from ofcl.data.live.sample import Sample, unusable
from ofcl.data.options import Damage, Reading
from ofcl.errors import OfclError
from ofcl.state import State

ARRAY_NAMES = (("x", "y"), ("images", "labels"), ("x_train", "y_train"))
"""The names that samples and labels may have in an npz file."""


@dataclass
class Position:
    """The position up to which a file has been read.

    Args:
        rows: The number of rows that were read; None: the file was never read.
        damaged: The number of damaged lines that were reported; None: not known, and the damaged
            lines before row `rows` count as reported.
    """

    rows: int | None = None
    damaged: int | None = None


class SampleReader:
    """Reads the samples in the files and lines of one stream.

    Args:
        how: The options of reading.
        task: The column whose value changes when a task ends; None: there is none.
        known: The facts that the feed saves; the reader adds the meaning of the columns.
    """

    def __init__(self, how: Reading, task: str | None, known: State) -> None:
        self._how, self._task, self._known = how, task, known

    def read_file(self, path: Path, source: str, at: Position) -> Iterator[Sample]:
        """Yields the samples of a file after a position, and moves the position along.

        If the file as a whole is damaged, yields one unusable sample, and the position stays: when
        the file has been mended, all its rows are read.

        Args:
            path: The file.
            source: The name that samples give as their source.
            at: The position, which is changed.
        """
        start = at.rows or 0
        try:
            for sample in self._samples(path, source, at):
                at.rows = max(at.rows or 0, sample.row + 1)
                yield sample
        except (OfclError, UnreadableImage) as error:
            if path.exists():  # else it has just been deleted
                at.rows = start
                yield unusable(source, start - 1, str(error))

    def read_line(self, line: bytes, source: str, row: int) -> Sample:
        """Reads the sample in a line of JSON; if that fails, returns one that says why.

        Args:
            line: The line.
            source: The name of the file or pipe.
            row: The number of the line, counted from 0.
        """
        try:
            values = parse_json_row(decode_line(source, row + 1, line))
            columns = {name: [value] for name, value in values.items()}
            meaning = self._meaning(Table(source, columns, [row + 1]), gaps=True)
            return self._sample_of_row(meaning, values, source, row, f"{source}, line {row + 1}")
        except (OfclError, ValueError) as error:
            return unusable(source, row, f"{source}, line {row + 1}: {error}")

    def _samples(self, path: Path, source: str, at: Position) -> Iterator[Sample]:
        """Yields the samples of an image, table or npz after a position.

        Args:
            path: The file.
            source: The name that samples give as their source.
            at: The position, which is changed by tables only.
        """
        start = at.rows or 0
        if is_image(path):
            yield from self._read_image(path, source, start)
        elif path.suffix.lower() == ".npz":
            yield from self._read_arrays(path, source, start)
        elif table_format(path):
            yield from self._read_table(path, source, at)
        elif not start:
            yield unusable(source, 0, f"'{source}' is no image, table or npz")

    def _read_image(self, path: Path, source: str, start: int) -> Iterator[Sample]:
        """Yields an image, labelled by its folder; nothing if it was read before (`start` > 0)."""
        if start:
            return
        label = Path(source).parent.name
        if not label:
            raise OfclError(f"'{source}' lies in no subfolder, whose name would be its class")
        image = read_image(path, self._how.image_size, largest=UNKNOWN)
        yield Sample(image, label, None, source, 0)

    def _read_table(self, path: Path, source: str, at: Position) -> Iterator[Sample]:
        """Yields the rows and the damaged lines of a table after a position, which is changed."""
        damage = Damage(self._how.on_bad)
        table = read_table(path, damage)
        meaning = self._meaning(table)
        # A damaged line has no row. It is reported with the row before it: these are the numbers of
        # rows before each damaged line.
        rows_before = [bisect(table.lines, line) for line in damage.lines]
        reported = at.damaged
        if reported is None:
            reported = 0 if at.rows is None else bisect(rows_before, at.rows)
        start, at.damaged = at.rows or 0, len(rows_before)
        if at.rows is None and not len(table):
            yield unusable(source, -1, f"'{source}' has no rows")
        unreported = list(zip(rows_before, damage.problems, strict=True))[reported:]
        for row in range(start, len(table) + 1):
            while unreported and unreported[0][0] <= row:
                _, problem = unreported.pop(0)
                yield unusable(source, row - 1, problem)
            if row == len(table):
                break
            values = {name: column[row] for name, column in table.columns.items()}
            where = f"'{source}', line {table.lines[row]}"
            try:
                yield self._sample_of_row(meaning, values, source, row, where)
            except ValueError as error:
                yield unusable(source, row, f"{where}: {error}")

    def _sample_of_row(
        self, meaning: Meaning, values: Mapping[str, Any], source: str, row: int, where: str
    ) -> Sample:
        """Makes a sample of a table's row.

        Args:
            meaning: The meaning of the columns.
            values: The values of the row by column.
            source: The name that the sample gives as its source.
            row: The number of the row, counted from 0.
            where: The file and the line, for messages.

        Raises:
            ValueError: A cell cannot be used.
        """
        if meaning.kind == "mixed":  # its cells are read when all clients have agreed how
            x: Any = Row({name: values.get(name) for name in meaning.columns}, where)
            label = read_label(values.get(meaning.label), meaning.label)
        else:
            x, label = meaning.read(values)
        return Sample(x, label, values[self._task] if self._task else None, source, row)

    def _read_arrays(self, path: Path, source: str, start: int) -> Iterator[Sample]:
        """Yields the samples of an npz file from row `start` on."""
        arrays = read_arrays(path)
        names = next((names for names in ARRAY_NAMES if set(names) <= arrays.keys()), None)
        x, y = (arrays[name] for name in names) if names else (np.zeros(()),) * 2
        if not (x.ndim and y.ndim) or len(x) != len(y):
            raise OfclError(f"'{source}' needs arrays x and y of one length")
        for row in range(start, len(y)):
            label = y[row].tolist() if np.ndim(y[row]) == 0 else y[row].tolist()[0]
            yield Sample(x[row], label, None, source, row)

    def _meaning(self, table: Table, gaps: bool = False) -> Meaning:
        """Returns the meaning of the columns, which the first table of the stream decides.

        Args:
            table: The table to be read.
            gaps: Whether a column of cells may be missing, as a key may be in a line of JSON: then
                its cell is empty. One column at least must be there.

        Raises:
            OfclError: The table lacks a column that is in use, or the meaning is not clear.
        """
        if self._task is not None:
            table.column(self._task)
        known = self._known
        if "columns" not in known:
            # The column of the tasks is not one of the numbers.
            columns = {n: c for n, c in table.columns.items() if n != self._task}
            found = find_meaning(Table(table.name, columns, table.lines), self._how, mixed=True)
            known |= {"label": found.label, "kind": found.kind, "columns": found.columns}
            if found.kind in ("numbers", "mixed"):  # which columns are of use, all rows will say
                names = [n for n in columns if n and n not in (found.label, *self._how.drop)]
                known |= {"kind": "mixed", "columns": self._how.columns or tuple(names)}
        meaning = Meaning(known["label"], known["kind"], tuple(known["columns"]))
        there = [name for name in meaning.columns if name in table.columns]
        needed = there if gaps and there and meaning.kind == "mixed" else meaning.columns
        for name in (meaning.label, *needed):
            table.column(name)
        return meaning
