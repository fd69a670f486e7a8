"""Gradients of single samples: their norms, and their mean."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from ofcl.compute import foreach
from ofcl.state import Tensors

AT_ONCE = 32  # samples whose gradients a GPU holds at the same time


def gradient_norms(
    model: nn.Module, weights: Tensors, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensors]:
    """Computes ‖∇ CE(f(x), y)‖ for every sample by itself, and the mean of all gradients.

    Args:
        model: The network f, in evaluation mode: no sample changes the gradient of another.
        weights: The parameters that learn by name, in place of those of the network.
        x: The samples (n, …); there is at least one.
        y: Their classes (n,), on the same device.

    Returns:
        The norms (n,), and the mean of the gradients by the names of the weights.
    """
    return (_at_once if x.is_cuda else _one_by_one)(model, weights, x, y)


def _loss(model: nn.Module, weights: Tensors, x: Tensor, y: Tensor) -> Tensor:
    """Computes the cross-entropy of samples with other weights in the place of the network's."""
    return F.cross_entropy(functional_call(model, weights, (x,)), y)


def _one_by_one(
    model: nn.Module, weights: Tensors, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensors]:
    """Computes the gradients sample by sample; on a CPU, nothing is faster."""
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    norms, sums = [], [torch.zeros_like(value) for value in weights.values()]
    with torch.enable_grad():
        for row in range(len(x)):
            loss = _loss(model, leaves, x[row : row + 1], y[row : row + 1])
            gradients = torch.autograd.grad(loss, list(leaves.values()))
            norms.append(torch.stack(foreach.norms(gradients)).square().sum().sqrt())
            foreach.add_scaled(sums, gradients, 1.0)
    return torch.stack(norms), _mean(weights, sums, len(x))


def _at_once(model: nn.Module, weights: Tensors, x: Tensor, y: Tensor) -> tuple[Tensor, Tensors]:
    """Computes the gradients of many samples in one call, for a GPU."""

    def loss(values: Tensors, sample: Tensor, label: Tensor) -> Tensor:
        return _loss(model, values, sample[None], label[None])

    each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    norms, sums = [], [torch.zeros_like(value) for value in weights.values()]
    detached = {name: value.detach() for name, value in weights.items()}
    for some, labels in zip(x.split(AT_ONCE), y.split(AT_ONCE), strict=True):
        gradients = list(each(detached, some, labels).values())
        squares = [gradient.flatten(1).square().sum(1) for gradient in gradients]
        norms.append(torch.stack(squares).sum(0).sqrt())
        foreach.add_scaled(sums, [gradient.sum(0) for gradient in gradients], 1.0)
    return torch.cat(norms), _mean(weights, sums, len(x))


def _mean(weights: Tensors, sums: list[Tensor], n: int) -> Tensors:
    """Divides sums of gradients by the number of samples, and names them."""
    return dict(zip(weights, (value / n for value in sums), strict=True))
