"""Calls of PyTorch that are private or undocumented; no other module makes them.

Most do for many tensors in one call what a loop would do: for a small network, the loop takes
longer than the arithmetic in it. PyTorch's own optimisers use the same `_foreach_…` functions, but
any version may change them.

Tested with PyTorch 2.11 (CUDA) and 2.13 (CPU); `pyproject.toml` accepts 2.6 and later. If PyTorch
drops one of these functions, replace it by a loop over the public operation that the docstring here
names in brackets. Results stay the same but for rounding, and only speed is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

TensorList = list[Tensor] | tuple[Tensor, ...]
"""Tensors of any shapes, on one device."""


def copy_all(targets: TensorList, sources: TensorList) -> None:
    """Copies each source into its target (`Tensor.copy_`).

    Args:
        targets: The tensors that are overwritten.
        sources: The tensor to copy into each target.
    """
    torch._foreach_copy_(targets, sources)


def move_towards(targets: TensorList, goals: TensorList, share: float) -> None:
    """Moves each target in place by a share of the way to its goal (`Tensor.lerp_`).

    Args:
        targets: The tensors that are changed.
        goals: The tensor to move each target towards.
        share: The share of the way: 0 changes nothing, 1 reaches the goal.
    """
    torch._foreach_lerp_(targets, goals, share)


def add_scaled(targets: TensorList, terms: TensorList, factor: float) -> None:
    """Adds a term, times one factor, to each target in place (`Tensor.add_` with `alpha`).

    Args:
        targets: The tensors that are changed.
        terms: The term for each target.
        factor: The factor of every term.
    """
    torch._foreach_add_(targets, terms, alpha=factor)


def add_number(targets: TensorList, number: float) -> None:
    """Adds one number to every tensor, in place (`Tensor.add_`).

    Args:
        targets: The tensors that are changed.
        number: The number to add.
    """
    torch._foreach_add_(targets, number)


def scale_all(targets: TensorList, factor: float) -> None:
    """Multiplies every tensor by one factor, in place (`Tensor.mul_`).

    Args:
        targets: The tensors that are changed.
        factor: The factor.
    """
    torch._foreach_mul_(targets, factor)


def between(starts: TensorList, goals: TensorList, share: float) -> TensorList:
    """Returns new tensors a share of the way from each start to its goal (`torch.lerp`).

    Args:
        starts: The tensors to start from.
        goals: The tensor to move towards from each start.
        share: The share of the way: 0 gives the starts, 1 the goals.
    """
    return torch._foreach_lerp(starts, goals, share)


def scaled(tensors: TensorList, factor: float) -> TensorList:
    """Returns every tensor times one factor (`torch.mul`).

    Args:
        tensors: The tensors.
        factor: The factor.
    """
    return torch._foreach_mul(tensors, factor)


def sums(first: TensorList, second: TensorList) -> TensorList:
    """Returns the sum of each pair of tensors (`torch.add`).

    Args:
        first: The first tensor of each pair.
        second: The second tensor of each pair.
    """
    return torch._foreach_add(first, second)


def differences(first: TensorList, second: TensorList) -> TensorList:
    """Returns the first tensor of each pair minus the second (`torch.sub`).

    Args:
        first: The first tensor of each pair.
        second: The second tensor of each pair.
    """
    return torch._foreach_sub(first, second)


def norms(tensors: TensorList) -> TensorList:
    """Returns the Euclidean norm of every tensor (`torch.linalg.vector_norm`).

    Args:
        tensors: The tensors.
    """
    return torch._foreach_norm(tensors)


def adam_step(
    parameters: TensorList,
    gradients: TensorList,
    means: TensorList,
    squares: TensorList,
    steps: TensorList,
    *,
    lr: float,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Takes a step of Adam with all parameters, like `torch.optim.Adam(fused=True)`.

    Args:
        parameters: The tensors to change.
        gradients: The gradient of each parameter.
        means: Running means of the gradients; they are changed too.
        squares: Running means of the squared gradients; they are changed too.
        steps: The number of each parameter's step, from 1.
        lr: The learning rate.
        betas: The decay of the two running means.
        eps: A small number that is added to the denominator.
    """
    torch._fused_adam_(
        parameters,
        gradients,
        means,
        squares,
        [],
        steps,
        lr=lr,
        beta1=betas[0],
        beta2=betas[1],
        weight_decay=0.0,
        eps=eps,
        amsgrad=False,
        maximize=False,
    )


def batch_norm_without_cudnn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Normalises a batch in training with PyTorch's own CUDA kernels.

    `F.batch_norm` does the same, but may choose cuDNN's kernels.

    Args:
        x: The feature maps (n, channels, height, width).
        weight: The factor of each channel.
        bias: The number that is added to each channel.
        running_mean: The running mean of each channel, which is updated; None: there is none.
        running_var: The running variance of each channel, which is updated; None: there is none.
        momentum: The weight of this batch in the running statistics.
        eps: A small number that is added to the variance.
    """
    normalised: Tensor = torch.native_batch_norm(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )[0]
    return normalised


def undecorated(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method of PyTorch's optimisers without the decorator that imports the compiler.

    The import takes a second, and nothing in this package is compiled.

    Args:
        method: The method; if it has no decorator, it is returned as it is.
    """
    plain: Callable[..., Any] = getattr(method, "__wrapped__", method)
    return plain
