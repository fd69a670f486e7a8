"""Herding: samples of a class whose mean is near the mean of the whole class (iCaRL, Welling 2009).

A remembered sample stands for the samples of its class that went: its key is how many samples of
the stream it stands for. So the mean of a class is that of all its samples, as far as those that
are remembered can tell.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ofcl.memory.choice import Choice


def stands_for_itself(x: Tensor) -> Tensor:
    """Gives new samples their key (n,): each stands for itself alone.

    Args:
        x: The samples (n, …).
    """
    return torch.ones(len(x))


def herd(weights: np.ndarray, distances: np.ndarray, room: int) -> np.ndarray:
    """Chooses samples one by one, so that their mean stays as near to the class mean as possible.

    With features φ of length 1 and their mean μ, weighted by the number of samples that each stands
    for, the k-th sample is the one for which ‖μ − (φ + sum of those chosen before) / k‖ is least;
    that is, for which k ⟨μ, φ⟩ − ⟨sum, φ⟩ is largest.

    >>> angles = np.array([0.0, 0.1, 1.5])
    >>> cosines = np.cos(angles[:, None] - angles)
    >>> herd(np.ones(3), 1 - cosines, 1).tolist()  # the middle one is nearest to the mean
    [False, True, False]

    Args:
        weights: How many samples of the stream each sample of the class stands for (n,).
        distances: The distances between the samples (n, n): 1 − ⟨φ, φ'⟩.
        room: The number of samples that stay.

    Returns:
        A mask of the samples that stay (n,).
    """
    cosines = 1 - distances
    towards = cosines @ (weights / weights.sum())  # ⟨μ, φ⟩ of each
    staying, chosen = np.zeros(len(weights), dtype=bool), np.zeros(len(weights))
    for k in range(1, room + 1):
        gain = np.where(staying, -np.inf, k * towards - chosen)
        best = int(np.argmax(gain))
        staying[best] = True
        chosen = chosen + cosines[best]
    return staying


HERDING = Choice(thinning=herd, by_distance=True, compare_all=True, hands_on=True)
"""Samples whose mean is that of their class; those that go hand on what they stand for."""
