"""Batch normalisation for images, also of several parts of a batch on their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute import foreach


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation that can take the statistics of each part of a batch (`in_parts`).

    It does not count its batches, which PyTorch's does: nobody asks, and counting takes time.
    """

    parts: int | None = None
    """The number of equal parts of a batch in training; None: it is one whole."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalises feature maps (n, channels, height, width)."""
        if self.training and self.parts is not None:
            return self._in_parts(x)
        momentum = self.momentum or 0.0
        running = self.running_mean, self.running_var
        if self.training and x.is_cuda:
            # PyTorch's own kernels: cuDNN's take 1.2 times as long where networks run side by side.
            return foreach.batch_norm_without_cudnn(
                x, self.weight, self.bias, *running, momentum, self.eps
            )
        return F.batch_norm(x, *running, self.weight, self.bias, self.training, momentum, self.eps)

    def _in_parts(self, x: Tensor) -> Tensor:
        if self.parts == 1:
            return F.batch_norm(x, None, None, self.weight, self.bias, True, eps=self.eps)
        parts = x.view(self.parts or 1, -1, *x.shape[1:])  # (parts, n, channels, height, width)
        var, mean = torch.var_mean(parts, dim=(1, 3, 4), correction=0, keepdim=True)
        scale = self.weight.view(-1, 1, 1) * (var + self.eps).rsqrt()
        shift = self.bias.view(-1, 1, 1) - mean * scale
        return torch.addcmul(shift, parts, scale).view_as(x)


@contextmanager
def in_parts(model: nn.Module, parts: int) -> Iterator[None]:
    """Lets a model normalise each part of a batch as if it came alone.

    In training mode only. The running statistics do not change.

    Args:
        model: A module with `BatchNorm` layers.
        parts: How many equal parts a batch has.
    """
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
    for norm in norms:
        norm.parts = parts
    try:
        yield
    finally:
        for norm in norms:
            norm.parts = None
