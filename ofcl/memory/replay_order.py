"""Orders of the remembered samples: the first samples in an order are replayed."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

ReplayDraw = Literal["uniform", "class", "key"]
"""How samples are drawn for replay: all alike, class by class, or uncertain ones more often."""


def class_by_class(y: np.ndarray, generator: torch.Generator) -> Tensor:
    """Draws a random order in which every class comes once before any class comes twice, and so on.

    Args:
        y: The class of each sample (n,).
        generator: The generator to draw from.

    Returns:
        The indices of the samples (n,), in that order.
    """
    shuffled = torch.randperm(len(y), generator=generator).numpy()
    classes = y[shuffled]
    by_class = np.argsort(classes, kind="stable")
    turn = np.empty(len(y), dtype=np.int64)  # of each sample: how many of its class come before it
    starts = np.searchsorted(classes[by_class], classes[by_class])
    turn[by_class] = np.arange(len(y)) - starts
    return torch.from_numpy(shuffled[np.argsort(turn, kind="stable")])


def uncertain_first(uncertainty: np.ndarray, generator: torch.Generator) -> Tensor:
    """Draws a random order in which uncertain samples tend to come first.

    The weight of a sample is the rank of its uncertainty: of n samples, the most uncertain is n
    times as likely to come first as the least uncertain.

    Args:
        uncertainty: The uncertainty of each sample (n,); NaN, not known, counts as in the middle.
        generator: The generator to draw from.

    Returns:
        The indices of the samples (n,), in that order.
    """
    n = len(uncertainty)
    weight = np.empty(n)
    weight[np.argsort(uncertainty, kind="stable")] = np.arange(1, n + 1)
    weight[np.isnan(uncertainty)] = (n + 1) / 2
    drawn = torch.rand(n, generator=generator, dtype=torch.double).numpy()
    return torch.from_numpy(np.argsort(-np.log1p(-drawn) / weight, kind="stable"))
