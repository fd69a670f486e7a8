"""What BatchNorm layers see while a generator learns from a frozen model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

LEAST_VARIANCE = 1e-8


class LayerInput(NamedTuple):
    """The input of one BatchNorm layer, beside its inputs in training.

    Args:
        mean: The mean of each channel.
        variance: The variance of each channel.
        running_mean: BatchNorm's running mean.
        running_variance: BatchNorm's running variance.
    """

    mean: Tensor
    variance: Tensor
    running_mean: Tensor
    running_variance: Tensor


@contextmanager
def watched_inputs(model: nn.Module) -> Iterator[list[LayerInput]]:
    """Collects the inputs of every BatchNorm layer while the context is open.

    Args:
        model: The model with the BatchNorm layers.

    Yields:
        A list; each forward of the model appends one entry for each layer.
    """
    inputs: list[LayerInput] = []

    def watch(layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        """Appends what a layer was given; PyTorch calls it after each forward."""
        assert isinstance(layer, nn.BatchNorm2d)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        variance, mean = torch.var_mean(given[0], dim=(0, 2, 3), correction=0)
        inputs.append(
            LayerInput(
                mean,
                variance.clamp_min(LEAST_VARIANCE),
                layer.running_mean,
                layer.running_var.clamp_min(LEAST_VARIANCE),
            )
        )

    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    hooks = [norm.register_forward_hook(watch) for norm in norms]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()
