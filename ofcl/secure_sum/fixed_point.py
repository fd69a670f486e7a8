"""Fixed-point integers modulo 2^64: the form in which updates are masked and added up.

A vector has each number of an update times the update's weight, in steps of 2^-24, and the weight
itself at the end. Integers add up exactly, in any order, and wrap around as masks need it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.state import Tensors

STEPS = 2**24  # to one
_LARGEST = 2.0**62  # of a sum; half of what 64 bits hold


def encoded(state: Tensors, weight: int, parties: int) -> Tensor:
    """Makes the integers of an update.

    >>> encoded({"w": torch.tensor([0.5])}, weight=2, parties=3).tolist() == [STEPS, 2]
    True

    Args:
        state: The tensors of the update, taken in the order of their names.
        weight: The weight of the update.
        parties: How many vectors will be added up at most: their sum must fit into 64 bits.

    Returns:
        The integers (numbers of the update + 1,).

    Raises:
        OfclError: If a number is not finite, or so large that a sum might not fit.
    """
    parts = [state[name].detach().cpu().double().flatten() for name in sorted(state)]
    numbers = torch.cat([torch.zeros(0, dtype=torch.double), *parts])
    scaled = numbers * (weight * STEPS)
    largest = float(scaled.abs().max()) if len(scaled) else 0.0
    if not math.isfinite(largest) or max(largest, weight) * parties > _LARGEST:
        raise OfclError(
            "the update has numbers that are too large to be masked; lower the learning rate"
        )
    return torch.cat([scaled.round().long(), torch.tensor([weight])])


def decoded(total: Tensor, like: Tensors) -> tuple[Tensors, int]:
    """Reads the weighted mean of updates from the sum of their integers.

    Args:
        total: The sum of vectors that `encoded` made.
        like: Tensors of the same names, shapes and types as those of the updates.

    Returns:
        The mean, and the sum of the weights. If that sum is not positive, the tensors are empty.
    """
    weight = int(total[-1])
    if weight <= 0:
        return {}, weight
    numbers, start, mean = total[:-1].double() / float(STEPS * weight), 0, {}
    for name in sorted(like):
        count = like[name].numel()
        mean[name] = numbers[start : start + count].reshape(like[name].shape).to(like[name])
        start += count
    return {name: mean[name] for name in like}, weight
