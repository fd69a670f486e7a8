"""The precision in which a network computes its gradient steps."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def computing_in(precision: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """Makes a context in which networks compute in a precision; their weights stay as they are.

    On a GPU, convolutions and matrix products are computed in it, and what lies between them is
    stored in it. A CPU computes in float32, whatever the precision.

    Args:
        precision: float32 or bfloat16.
        device: The device of the network.
    """
    if precision == torch.float32 or device.type != "cuda":
        return nullcontext()
    return torch.autocast(device.type, precision)
