"""The models: ordinary PyTorch modules with a linear `head` over the classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ofcl.models.mlp import MLP
from ofcl.models.resnet import SlimResNet18


@dataclass(frozen=True)
class ModelSize:
    """What a model is built from."""

    shape: tuple[int, ...]  # of one sample
    classes: int
    width: int = 20
    hidden: int = 512


MODELS: dict[str, Callable[[ModelSize], nn.Module]] = {
    "slim-resnet18": lambda size: SlimResNet18(size.shape[0], size.classes, size.width),
    "mlp": lambda size: MLP(math.prod(size.shape), size.hidden, size.classes),
}
"""Every model by name."""


def batchable(x: Tensor) -> Tensor:
    """Samples, or labels, that BatchNorm can take statistics of: a lone one is doubled.

    Without this, a last mini-batch of one small image has a single value in each channel.
    """
    return x if len(x) > 1 else torch.cat([x, x])


def forward_size(device: torch.device) -> int:
    """How many samples of a forward without gradients are fast; on a CPU, what the caches hold."""
    return 256 if device.type == "cpu" else 8192
