"""Abstention: a model that does not answer where it is unsure errs less.

On validation data one sees how often it errs if it answers only the samples about which it is
surest. From that curve the threshold is taken for an error that somebody names.
"""

from __future__ import annotations

import numpy as np

from ofcl.bundle.description import Curve
from ofcl.errors import OfclError

MOST_POINTS = 200


def risk_curve(unsure: np.ndarray, right: np.ndarray) -> Curve:
    """Computes the error among the surest samples, for every share of them.

    Args:
        unsure: A number for each sample (n,), larger if the model is less sure.
        right: Whether the model's answer is right (n,).

    Returns:
        The curve, with at most 200 points. Its thresholds are values of `unsure`, rising; samples
        with equal values are answered together.

    >>> risk_curve(np.array([0.1, 0.4, 0.2, 0.4]), np.array([True, False, True, True])).errors
    (0.0, 0.0, 0.25)
    """
    order = np.argsort(unsure, kind="stable")
    values, wrong = unsure[order], np.cumsum(~right[order])
    last = np.append(values[1:] != values[:-1], True) if len(values) else np.empty(0, dtype=bool)
    ends = np.flatnonzero(last)  # of groups of equal values
    if len(ends) > MOST_POINTS:
        ends = ends[np.linspace(0, len(ends) - 1, MOST_POINTS).astype(int)]
    return Curve(
        thresholds=tuple(map(float, values[ends])),
        coverage=tuple(((ends + 1) / max(len(values), 1)).tolist()),
        errors=tuple((wrong[ends] / (ends + 1)).tolist()),
        samples=len(values),
    )


def threshold_for(curve: Curve, error: float) -> float:
    """Finds the largest unsureness at which a model may answer and still keep below an error.

    Validation samples are few, so the share of errors among them must be so small that the true
    share is below the allowed one with a confidence of 95 % (Wilson's upper bound).

    Args:
        curve: The curve on validation data.
        error: The share of wrong answers that is allowed, between 0 and 1.

    Raises:
        OfclError: If no threshold reaches that error.

    >>> threshold_for(risk_curve(np.arange(100) / 100, np.arange(100) < 90), 0.05)
    0.9
    """
    counts = np.array(curve.coverage) * curve.samples
    careful = upper_bound(np.array(curve.errors), counts)
    good = np.flatnonzero(careful <= error)
    if not len(good):
        best = careful.min() if len(careful) else 1.0
        raise OfclError(
            f"an error of {error:.1%} cannot be promised: on {curve.samples} validation samples "
            f"the best is {best:.1%}; allow more, or give labelled samples with --calibrate"
        )
    return curve.thresholds[int(good[-1])]


def upper_bound(shares: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Computes up to where true shares may lie, by Wilson's bound with a confidence of 95 %.

    Args:
        shares: Shares that were seen (n,), from 0 to 1.
        counts: How many samples each of them was seen in (n,), above 0.

    >>> upper_bound(np.array([0.0, 0.1]), np.array([100.0, 100.0])).round(3).tolist()
    [0.026, 0.16]
    """
    z = 1.6449  # the 95 % quantile of the normal distribution
    middle = shares + z**2 / (2 * counts)
    half = z * np.sqrt(shares * (1 - shares) / counts + z**2 / (4 * counts**2))
    return np.asarray((middle + half) / (1 + z**2 / counts))
