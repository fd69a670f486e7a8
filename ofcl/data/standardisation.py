"""Standardisation of the columns of a table, from a window of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Standardisation:
    """Subtracts a value from each column and divides it by another.

    Fitted to a window of rows (`of`), these are the columns' means and standard deviations in it. A
    column that does not vary in the window is only shifted.

    Args:
        mean: The value that is subtracted from each column.
        scale: The value by which each column is then divided.

    >>> Standardisation.of(np.array([[1.0, 5.0], [3.0, 5.0]]))(np.array([[5.0, 6.0]]))
    array([[3., 1.]], dtype=float32)
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, window: np.ndarray) -> Standardisation:
        """Fits a standardisation to a window of rows, and keeps none of the rows.

        Args:
            window: The rows (n, columns).
        """
        mean, deviation = window.mean(axis=0), window.std(axis=0)
        # Both: the deviation of a constant column may be above 0, as its mean is rounded.
        varies = (window.max(axis=0) > window.min(axis=0)) & (deviation > 0)
        return cls(np.where(varies, mean, window[0]), np.where(varies, deviation, 1.0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Returns standardised rows (n, columns).

        Args:
            rows: The rows (n, columns).
        """
        with np.errstate(over="ignore"):
            return np.asarray((np.asarray(rows) - self.mean) / self.scale, dtype=np.float32)
