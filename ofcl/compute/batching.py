"""Sizes of the batches that go through a model at once."""

from __future__ import annotations

import torch
from torch import Tensor


def batchable(x: Tensor) -> Tensor:
    """Doubles a batch of one sample, so that BatchNorm can take statistics of it.

    The last batch of a task may be a single small image, which has one value in each channel.

    Args:
        x: Samples (n, …), or their classes (n,).

    Returns:
        `x` itself if it has more than one entry, else the entry twice.
    """
    return x if len(x) > 1 else torch.cat([x, x])


def forward_size(device: torch.device) -> int:
    """Returns how many samples should go through a model at once when no gradients are needed.

    Args:
        device: The device of the model.
    """
    return 256 if device.type == "cpu" else 8192  # 256: what a CPU's caches hold
