"""Batch normalisation for images; several parts of a batch can be normalised separately."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.compute import foreach


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation that can normalise each part of a batch by itself (see `in_parts`).

    Unlike PyTorch's, it does not count its batches: the count is not used, and counting takes time.
    """

    parts: int | None = None
    """The number of equal parts of a batch in training; None: one part, the whole batch."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalises feature maps; returns others of the same shape.

        Args:
            x: The feature maps (n, channels, height, width).
        """
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
        """Normalises each of `parts` equal parts of a batch with the part's own statistics."""
        if self.parts == 1:
            return F.batch_norm(x, None, None, self.weight, self.bias, True, eps=self.eps)
        parts = x.view(self.parts or 1, -1, *x.shape[1:])  # (parts, n, channels, height, width)
        var, mean = torch.var_mean(parts, dim=(1, 3, 4), correction=0, keepdim=True)
        scale = self.weight.view(-1, 1, 1) * (var + self.eps).rsqrt()
        shift = self.bias.view(-1, 1, 1) - mean * scale
        return torch.addcmul(shift, parts, scale).view_as(x)


@contextmanager
def in_parts(model: nn.Module, parts: int) -> Iterator[None]:
    """Lets a model normalise each part of a batch with the part's own statistics.

    This holds inside the `with` block and in training mode. The running statistics do not change.

    Args:
        model: A module with `BatchNorm` layers.
        parts: The number of equal parts into which a batch is cut.
    """
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
    for norm in norms:
        norm.parts = parts
    try:
        yield
    finally:
        for norm in norms:
            norm.parts = None
