"""Orders in which remembered samples are replayed: the first of them are."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

ReplayDraw = Literal["uniform", "class", "key"]
"""How samples are drawn for replay: all alike, class by class, or uncertain ones more often."""


def class_by_class(y: np.ndarray, generator: torch.Generator) -> Tensor:
    """Draws an order in which every class comes once before any comes twice, and so on.

    Args:
        y: The classes of the samples (n,).
        generator: Where the order is drawn from.
    """
    shuffled = torch.randperm(len(y), generator=generator).numpy()
    classes = y[shuffled]
    by_class = np.argsort(classes, kind="stable")
    turn = np.empty(len(y), dtype=np.int64)  # of each sample: how many of its class come before it
    starts = np.searchsorted(classes[by_class], classes[by_class])
    turn[by_class] = np.arange(len(y)) - starts
    return torch.from_numpy(shuffled[np.argsort(turn, kind="stable")])


def uncertain_first(uncertainty: np.ndarray, generator: torch.Generator) -> Tensor:
    """Draws an order in which the weight of a sample is the rank of its uncertainty.

    Of n samples the most uncertain is n times as likely to come first as the least uncertain.

    Args:
        uncertainty: Of the samples (n,); one that is not known, NaN, counts as in the middle.
        generator: Where the order is drawn from.
    """
    n = len(uncertainty)
    weight = np.empty(n)
    weight[np.argsort(uncertainty, kind="stable")] = np.arange(1, n + 1)
    weight[np.isnan(uncertainty)] = (n + 1) / 2
    drawn = torch.rand(n, generator=generator, dtype=torch.double).numpy()
    return torch.from_numpy(np.argsort(-np.log1p(-drawn) / weight, kind="stable"))
