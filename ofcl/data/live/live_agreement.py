"""One scale and one code of the columns for all clients of a run, made of their first rows.

A column's kind and its categories follow from how often each word comes in all clients' first rows,
its scale from the mean and deviation that each client's first rows have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ofcl.data.feature_scaling import feature_moments, with_floor
from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.files.columns import Meaning, find_row_meaning
from ofcl.data.files.whole_table import Table
from ofcl.data.standardisation import Standardisation, pool_moments
from ofcl.data.table_code import encode_rows
from ofcl.errors import OfclError
from ofcl.state import State


@dataclass(frozen=True)
class Row:
    """A row of a table as it was read: its cells are numbers only when codes have been agreed on.

    Args:
        cells: The cells by column.
        where: The file and the line that it came from, for messages.
    """

    cells: Mapping[str, Any]
    where: str


@dataclass(frozen=True)
class Agreement:
    """How the rows or vectors of all clients become a model's input.

    Args:
        standardise: Standardises the numbers; marks of gaps and places of categories stay.
        columns: The columns of rows that are learned from; empty: samples are vectors.
        codes: How the cells of these columns become numbers; empty: each cell is one number.
        count: The number of rows behind it.
        left_out: Why other columns are left out, by their names.
    """

    standardise: Standardisation
    columns: tuple[str, ...] = ()
    codes: tuple[ColumnCode, ...] = ()
    count: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def meaning(self) -> Meaning:
        """The meaning of the columns, which reads rows."""
        return Meaning("", "mixed" if self.codes else "numbers", self.columns, self.codes)

    def vectors(self, samples: Sequence[Row | np.ndarray]) -> np.ndarray:
        """Turns rows or vectors into vectors (n, d) that are not standardised.

        Args:
            samples: The rows, or the vectors.

        Raises:
            ValueError: A cell cannot be used.
        """
        return _encode([_read(self.meaning, sample) for sample in samples], self.codes)

    def state(self) -> State:
        """Returns the agreement as plain values, for a checkpoint."""
        return {
            "mean": torch.from_numpy(self.standardise.mean),
            "scale": torch.from_numpy(self.standardise.scale),
            "columns": list(self.columns),
            "codes": [asdict(code) | {"categories": list(code.categories)} for code in self.codes],
            "count": self.count,
        }

    @classmethod
    def from_state(cls, state: State) -> Agreement:
        """Makes an agreement of what `state` returned; earlier versions knew numbers alone.

        Args:
            state: The plain values.
        """
        codes = [
            ColumnCode(**{**code, "categories": tuple(code["categories"])})
            for code in state.get("codes", ())
        ]
        scale = Standardisation(state["mean"].numpy(), state["scale"].numpy())
        columns = tuple(state.get("columns", ()))
        return cls(scale, columns, tuple(codes), int(state.get("count", 0)))


def agree_on(windows: Sequence[Sequence[Row | np.ndarray]], named: bool = False) -> Agreement:
    """Makes an agreement from the first samples of each client.

    Args:
        windows: The first rows or vectors of each client; at least one client has some.
        named: Whether the user has named the columns, so that none is left out.

    Raises:
        OfclError: None of the rows can be used.
    """
    some = next(window for window in windows if window)
    meaning = Meaning("", "numbers", ())
    if isinstance(some[0], Row):
        tables = [_table(window, tuple(some[0].cells)) for window in windows if window]
        meaning = find_row_meaning(tables, named)
    read, problem = _usable(meaning, windows)
    if not any(read):
        raise OfclError(f"none of the first rows can be used: {problem}")
    codes: tuple[ColumnCode, ...] = ()
    if meaning.codes:
        columns = zip(*(row for window in read for row in window), strict=True)
        pairs = zip(meaning.codes, columns, strict=True)
        codes = tuple(code.fitted(cells) for code, cells in pairs)
    found = Standardisation.of_windows([_encode(window, codes) for window in read if window])
    if codes:
        scaled = np.concatenate([code.scaled() for code in codes])
        plain = np.where(scaled, found.mean, 0.0), np.where(scaled, found.scale, 1.0)
        found = Standardisation(*plain)
    count = sum(map(len, read))
    return Agreement(found, meaning.columns, codes, count, meaning.left_out)


def agree_on_features(windows: Sequence[np.ndarray]) -> Agreement:
    """Makes an agreement from the vectors of each client's first images.

    Args:
        windows: The vectors (n, d) of each client that has some.
    """
    means, deviations = map(np.stack, zip(*map(feature_moments, windows), strict=True))
    found = with_floor(*pool_moments(list(map(len, windows)), means, deviations))
    return Agreement(found, count=sum(map(len, windows)))


def _table(window: Sequence[Row | np.ndarray], columns: Sequence[str]) -> Table:
    """Makes a table of a client's first rows."""
    rows = [sample for sample in window if isinstance(sample, Row)]
    cells = {name: [row.cells.get(name) for row in rows] for name in columns}
    return Table("the first rows", cells, list(range(len(rows))))


def rescaled_to(agreed: Agreement, mean: Sequence[float], scale: Sequence[float]) -> Agreement:
    """Gives an agreement another scale: that of all parties of a federation.

    Args:
        agreed: The agreement of one party's streams.
        mean: The value that is subtracted from each number.
        scale: The value by which each number is then divided.
    """
    return replace(agreed, standardise=Standardisation(np.array(mean), np.array(scale)))


def _usable(
    meaning: Meaning, windows: Sequence[Sequence[Row | np.ndarray]]
) -> tuple[list[list[Any]], str]:
    """Reads the rows of each window that can be read; also returns what is wrong with another."""
    read: list[list[Any]] = []
    problem = ""
    for window in windows:
        read.append([])
        for sample in window:
            try:
                read[-1].append(_read(meaning, sample))
            except ValueError as error:
                problem = str(error)
    return read, problem


def _read(meaning: Meaning, sample: Row | np.ndarray) -> Any:
    """Reads the cells of a row; a vector comes back as it is."""
    return meaning.sample(sample.cells) if isinstance(sample, Row) else sample


def _encode(rows: Sequence[Any], codes: Sequence[ColumnCode]) -> np.ndarray:
    """Turns cells that were read into numbers (n, d)."""
    return encode_rows(codes, rows) if codes else np.stack(rows).astype(np.float64)
