"""The code of a table whose columns are not all numbers: from cells to a network's input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ofcl.data.files.column_codes import ColumnCode
from ofcl.data.standardisation import Standardisation

Row = Sequence[Any]
"""The cells of a row, as the codes of their columns have read them."""


@dataclass(frozen=True)
class TableCode:
    """Turns rows of cells into vectors.

    Args:
        codes: The code of each column.
        standardise: Standardises the numbers that the codes give; marks of gaps and places of
            categories stay as they are.
    """

    codes: tuple[ColumnCode, ...]
    standardise: Standardisation

    @classmethod
    def of(cls, codes: Sequence[ColumnCode], rows: Sequence[Row], window: int) -> TableCode:
        """Fits codes and standardisation to the train rows.

        Args:
            codes: The code of each column, not fitted yet.
            rows: The train rows.
            window: From how many of them, spread over all, numbers are standardised.
        """
        columns = list(zip(*rows, strict=True))
        fitted = tuple(code.fitted(cells) for code, cells in zip(codes, columns, strict=True))
        spread = np.linspace(0, len(rows) - 1, min(window, len(rows))).astype(int)
        numbers = _encode(fitted, [rows[row] for row in spread])
        found = Standardisation.of(numbers)
        scaled = np.concatenate([code.scaled() for code in fitted])
        plain = np.where(scaled, found.mean, 0.0), np.where(scaled, found.scale, 1.0)
        return cls(fitted, Standardisation(*plain))

    def __call__(self, rows: Sequence[Row]) -> np.ndarray:
        """Turns rows into vectors (n, d) of 32 bits.

        Args:
            rows: The rows.
        """
        return self.standardise(_encode(self.codes, rows))


def _encode(codes: Sequence[ColumnCode], rows: Sequence[Row]) -> np.ndarray:
    """Turns rows into numbers (n, d) that are not standardised."""
    columns = zip(*rows, strict=True) if rows else [()] * len(codes)
    parts = [code.encode(cells) for code, cells in zip(codes, columns, strict=True)]
    return np.concatenate(parts, axis=1)
