"""Standardisation of the columns of a table, from a window of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

ROWS_AT_ONCE = 4096  # of tensors, as 64 bits are computed with


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

    @classmethod
    def pooled(cls, parts: Sequence[Standardisation]) -> Standardisation:
        """Makes one standardisation of several, as if their windows were one, of equal sizes.

        Args:
            parts: The standardisations, at least one. A single one comes back as it is.

        >>> parts = [Standardisation(np.array([m]), np.array([1.0])) for m in (0.0, 2.0)]
        >>> pooled = Standardisation.pooled(parts)
        >>> pooled.mean.tolist(), pooled.scale.tolist() == [2**0.5]
        ([1.0], True)
        """
        if len(parts) == 1:
            return parts[0]
        means, scales = (np.stack([getattr(p, name) for p in parts]) for name in ("mean", "scale"))
        mean = means.mean(axis=0)
        return cls(mean, np.sqrt((scales**2 + (means - mean) ** 2).mean(axis=0)))

    def plain(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Returns the values that are subtracted, and those that divide, as plain numbers."""
        return tuple(self.mean.tolist()), tuple(self.scale.tolist())

    def of_tensor(self, rows: Tensor) -> Tensor:
        """Returns standardised rows (n, columns) of a tensor on the CPU, a part at a time.

        Args:
            rows: The rows (n, columns) with 32 bits.
        """
        parts = [torch.from_numpy(self(part.numpy())) for part in torch.split(rows, ROWS_AT_ONCE)]
        return torch.cat(parts)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Returns standardised rows (n, columns).

        Args:
            rows: The rows (n, columns).
        """
        with np.errstate(over="ignore"):
            return np.asarray((np.asarray(rows) - self.mean) / self.scale, dtype=np.float32)
