"""Standardisation of the columns of a table, from a window of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

ROWS_AT_ONCE = 4096  # of tensors, as 64 bits are computed with


def pool_moments(
    weights: Sequence[float], means: np.ndarray, stds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Makes the mean and deviation of all samples from those of several parts.

    Args:
        weights: How much each part counts: the number of its samples, for example.
        means: The mean of each column in each part (parts, columns).
        stds: The deviations, in the same way.

    >>> mean, std = pool_moments([1, 1], np.array([[0.0], [2.0]]), np.array([[1.0], [1.0]]))
    >>> mean.tolist(), std.tolist() == [2**0.5]
    ([1.0], True)
    """
    shares = np.asarray(weights, dtype=np.float64)[:, None]
    shares = shares / shares.sum()
    mean = (shares * means).sum(axis=0)
    return mean, np.sqrt((shares * (stds**2 + (means - mean) ** 2)).sum(axis=0))


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
    def of_windows(cls, windows: Sequence[np.ndarray]) -> Standardisation:
        """Fits one standardisation to the windows of several clients, from the moments of each.

        Args:
            windows: The rows (n, columns) of each client, at least one.

        >>> windows = [np.array([[0.0], [2.0]]), np.array([[4.0], [6.0]])]
        >>> found = Standardisation.of_windows(windows)
        >>> found.mean.tolist(), found.scale.tolist() == [5**0.5]
        ([3.0], True)
        """
        if len(windows) == 1:
            return cls.of(windows[0])
        means, stds = (np.stack([f(w, axis=0) for w in windows]) for f in (np.mean, np.std))
        mean, deviation = pool_moments([len(w) for w in windows], means, stds)
        least = np.min([w.min(axis=0) for w in windows], axis=0)
        most = np.max([w.max(axis=0) for w in windows], axis=0)
        varies = (most > least) & (deviation > 0)
        return cls(np.where(varies, mean, least), np.where(varies, deviation, 1.0))

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
        return cls(*pool_moments([1.0] * len(parts), means, scales))

    def equals(self, other: Standardisation) -> bool:
        """Says whether another standardisation is the same, to the last bit.

        Args:
            other: The other one.
        """
        return np.array_equal(self.mean, other.mean) and np.array_equal(self.scale, other.scale)

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
