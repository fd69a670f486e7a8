"""Calls of PyTorch that are private or undocumented; no other module makes them.

Most do for many tensors in one call what a loop would do: for a small network, the loop takes
longer than the arithmetic in it. PyTorch's own optimisers use the same `_foreach_…` functions, but
any version may change them.

Tested with PyTorch 2.11 (CUDA) and 2.13 (CPU); `pyproject.toml` accepts 2.6 and later. When one of
them goes away, replace it by a loop over the public operation that its docstring names. Results
stay the same but for rounding, and only speed is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

TensorList = list[Tensor] | tuple[Tensor, ...]
"""Tensors of any shapes, on one device."""


def copy_all(targets: TensorList, sources: TensorList) -> None:
    """Copies each source into its target (`Tensor.copy_`)."""
    torch._foreach_copy_(targets, sources)


def move_towards(targets: TensorList, goals: TensorList, share: float) -> None:
    """Moves each target by a share of the way to its goal (`Tensor.lerp_`)."""
    torch._foreach_lerp_(targets, goals, share)


def add_scaled(targets: TensorList, terms: TensorList, factor: float) -> None:
    """Adds to each target its term times a factor (`Tensor.add_` with `alpha`)."""
    torch._foreach_add_(targets, terms, alpha=factor)


def add_number(targets: TensorList, number: float) -> None:
    """Adds a number to all (`Tensor.add_`)."""
    torch._foreach_add_(targets, number)


def scale_all(targets: TensorList, factor: float) -> None:
    """Multiplies all by a factor (`Tensor.mul_`)."""
    torch._foreach_mul_(targets, factor)


def between(starts: TensorList, goals: TensorList, share: float) -> TensorList:
    """Returns tensors that lie a share of the way from each start to its goal (`torch.lerp`)."""
    return torch._foreach_lerp(starts, goals, share)


def scaled(tensors: TensorList, factor: float) -> TensorList:
    """Returns each times a factor (`torch.mul`)."""
    return torch._foreach_mul(tensors, factor)


def sums(first: TensorList, second: TensorList) -> TensorList:
    """Returns the sums of pairs (`torch.add`)."""
    return torch._foreach_add(first, second)


def differences(first: TensorList, second: TensorList) -> TensorList:
    """Returns the first of each pair less the second (`torch.sub`)."""
    return torch._foreach_sub(first, second)


def norms(tensors: TensorList) -> TensorList:
    """Returns the Euclidean norm of each (`torch.linalg.vector_norm`)."""
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
    """Takes a step of Adam with all parameters (the step of `torch.optim.Adam(fused=True)`).

    Args:
        parameters: The tensors to change.
        gradients: Their gradients.
        means: Running means of the gradients; they are changed too.
        squares: Running means of the squared gradients; they are changed too.
        steps: The number of each parameter's step, from 1.
        lr: Learning rate.
        betas: Decay of the two running means.
        eps: Added to the denominator.
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
    """Normalises a batch in training by PyTorch's own CUDA kernels (`F.batch_norm` may choose)."""
    normalised: Tensor = torch.native_batch_norm(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )[0]
    return normalised


def undecorated(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method of PyTorch's optimisers without the decorator that imports the compiler.

    The import takes a second, and nothing in this package is compiled. Without such a decorator,
    the method is returned as it is.
    """
    plain: Callable[..., Any] = getattr(method, "__wrapped__", method)
    return plain
