"""Standardisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Standardisation:
    """Brings columns to the mean 0 and deviation 1 that they have in a window.

    A column that does not vary there is only shifted; its deviation may still be above 0, as its
    mean is rounded.

    >>> Standardisation.of(np.array([[1.0, 5.0], [3.0, 5.0]]))(np.array([[5.0, 6.0]]))
    array([[3., 1.]], dtype=float32)
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, window: np.ndarray) -> Standardisation:
        """From the rows of a window, which are not kept."""
        mean, deviation = window.mean(axis=0), window.std(axis=0)
        varies = (window.max(axis=0) > window.min(axis=0)) & (deviation > 0)
        return cls(np.where(varies, mean, window[0]), np.where(varies, deviation, 1.0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, columns), standardised."""
        with np.errstate(over="ignore"):
            return np.asarray((np.asarray(rows) - self.mean) / self.scale, dtype=np.float32)
