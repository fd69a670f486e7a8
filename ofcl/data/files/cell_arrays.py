"""Cells of a column, many at a time: as Python has them, or as pyarrow has, at far less cost.

Both kinds of cells give the same numbers and words; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ofcl.data.files.column_codes import MISSING

GAPS = {form(word) for word in MISSING for form in (str, str.upper, str.title)} | {"NaN"}
"""Words that stand for a missing value, in the usual cases of letters."""


class Cells(Protocol):
    """Cells of a column, in their order."""

    def __len__(self) -> int: ...

    def texts(self) -> Sequence[str]:
        """Returns the cells as texts."""

    def numbers(self, gaps: bool) -> np.ndarray | None:
        """Reads the cells as numbers; None: a cell is none, or needs a closer look.

        Args:
            gaps: Whether cells that stand for a missing value (`GAPS`) become NaN.
        """

    def different(self) -> tuple[list[str], np.ndarray]:
        """Returns the different cells in the order of their first places, and for each cell which.

        Returns:
            The different cells, and for each cell (n,) the place of its own among them.
        """


class ListedCells:
    """Cells as a sequence of texts.

    Args:
        cells: The cells.
    """

    def __init__(self, cells: Sequence[str]) -> None:
        self._cells = cells

    def __len__(self) -> int:
        return len(self._cells)

    def texts(self) -> Sequence[str]:
        """Returns the cells as texts."""
        return self._cells

    def numbers(self, gaps: bool) -> np.ndarray | None:
        """Reads the cells as numbers; see `Cells`."""
        try:
            if gaps:
                return np.array([np.nan if c in GAPS else float(c) for c in self._cells])
            return np.array(list(map(float, self._cells)))
        except ValueError:
            return None

    def different(self) -> tuple[list[str], np.ndarray]:
        """Returns the different cells, and for each cell the place of its own among them."""
        places: dict[str, int] = {}
        found = [places.setdefault(cell, len(places)) for cell in self._cells]
        return list(places), np.array(found, dtype=np.int64)


class ArrowCells:
    """Cells as a string array of pyarrow.

    Args:
        array: The array, without nulls.
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def texts(self) -> Sequence[str]:
        """Returns the cells as texts."""
        texts: list[str] = self._array.to_pylist()
        return texts

    def numbers(self, gaps: bool) -> np.ndarray | None:
        """Reads the cells as numbers; see `Cells`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        array = self._array
        if gaps:
            missing = pc.is_in(array, value_set=pa.array(sorted(GAPS), pa.string()))
            array = pc.if_else(missing, pa.scalar(None, pa.string()), array)
        try:
            numbers = array.cast(pa.float64())
        except pa.ArrowInvalid:  # Python reads some that pyarrow does not: +1, 1_000
            return ListedCells(self.texts()).numbers(gaps)
        found: np.ndarray = numbers.to_numpy(zero_copy_only=False)
        return found

    def different(self) -> tuple[list[str], np.ndarray]:
        """Returns the different cells, and for each cell the place of its own among them."""
        encoded = self._array.dictionary_encode()
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
