"""How many samples go through a model at once."""

from __future__ import annotations

import torch
from torch import Tensor


def batchable(x: Tensor) -> Tensor:
    """Samples, or labels, that BatchNorm can take statistics of: a lone one is doubled.

    Without this, a last mini-batch of one small image has a single value in each channel.
    """
    return x if len(x) > 1 else torch.cat([x, x])


def forward_size(device: torch.device) -> int:
    """How many samples of a forward without gradients are fast; on a CPU, what the caches hold."""
    return 256 if device.type == "cpu" else 8192
