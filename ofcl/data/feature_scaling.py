"""Scaling of the vectors that a pretrained network makes of images.

The network's vectors have length 1. Standardised, every number counts as much as every other;
divided by √d, the vectors have a length of about 1 again, whatever network they are from.
"""

from __future__ import annotations

import math

import numpy as np

from ofcl.data.standardisation import Standardisation

ROWS_AT_ONCE = 4096
SMALLEST_SHARE = 0.1  # of the usual deviation


def measure_features(vectors: np.ndarray) -> Standardisation:
    """Measures mean and deviation of each number of vectors.

    A number that hardly varies here may well vary in samples of classes that come later. So no
    deviation counts as less than a tenth of the usual one, the median of those above 0.

    Args:
        vectors: The vectors (n, d), at least one.

    >>> measure_features(np.array([[0.0, 5.0], [2.0, 5.0]])).scale.tolist()
    [1.0, 0.1]
    """
    return with_floor(*feature_moments(vectors))


def feature_moments(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes mean and deviation of each number of vectors, in pieces and with 64 bits.

    Args:
        vectors: The vectors (n, d), at least one.
    """
    total, squares = np.zeros(vectors.shape[1]), np.zeros(vectors.shape[1])
    for first in range(0, len(vectors), ROWS_AT_ONCE):
        total += vectors[first : first + ROWS_AT_ONCE].sum(axis=0, dtype=np.float64)
    mean = total / len(vectors)
    for first in range(0, len(vectors), ROWS_AT_ONCE):
        squares += ((vectors[first : first + ROWS_AT_ONCE] - mean) ** 2).sum(axis=0)
    return mean, np.sqrt(squares / len(vectors))


def with_floor(mean: np.ndarray, deviation: np.ndarray) -> Standardisation:
    """Makes a standardisation in which no deviation is much smaller than the usual one.

    Args:
        mean: The mean of each number.
        deviation: The deviation of each number.
    """
    varying = deviation[deviation > 0]
    usual = float(np.median(varying)) if len(varying) else 1.0
    return Standardisation(mean, np.maximum(deviation, SMALLEST_SHARE * usual))


def to_length_1(found: Standardisation) -> Standardisation:
    """Divides by √d too: vectors get a length of about 1.

    Args:
        found: The standardisation by mean and deviation.

    >>> to_length_1(Standardisation(np.zeros(4), np.ones(4))).scale.tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    return Standardisation(found.mean, found.scale * math.sqrt(len(found.scale)))
