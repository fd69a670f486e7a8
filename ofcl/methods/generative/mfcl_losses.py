"""MFCL: the terms of its losses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TEMPERATURE = 1000.0  # of the generator's label term, as released
BALANCE, STATISTICS, SMOOTHNESS = 1.0, 50.0, 1e-3  # weights of its other terms


Labels = Literal["teacher", "noise"]
"""What a made image is of: what the teacher takes it for, or the largest of its first noises."""


def label_loss(logits: Tensor, labels: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Cross-entropy of the teacher's logits of made images, at a temperature."""
    return F.cross_entropy(logits / temperature, labels)


def balance_loss(logits: Tensor) -> Tensor:
    """1 + Σ_c p̄_c ln p̄_c / ln q: 0 when all q classes are made equally often.

    >>> round(balance_loss(torch.eye(4) * 100).item(), 4), balance_loss(torch.zeros(3, 1)).item()
    (0.0, 0.0)
    """
    classes = logits.shape[1]
    if classes < 2:
        return logits.sum() * 0
    mean = logits.softmax(1).mean(0).clamp_min(1e-12)
    return 1 + (mean * mean.log()).sum() / torch.tensor(float(classes)).log().to(mean)


def statistics_loss(
    mean: Tensor, variance: Tensor, running_mean: Tensor, running_variance: Tensor
) -> Tensor:
    """How far a layer's input is from what it was in training, mean over the channels.

    ln(σ/σ_r) − ½ (1 − (σ_r² + (μ_r − μ)²) / σ²)
    """
    ratio = (running_variance + (running_mean - mean) ** 2) / variance
    return (0.5 * (variance / running_variance).log() - 0.5 * (1 - ratio)).mean()


def smoothness_loss(images: Tensor) -> Tensor:
    """The squared difference between images and what a Gaussian of 5 × 5 pixels makes of them."""
    places = torch.arange(5, device=images.device) - 2.0
    bell = torch.exp(-((places / 2) ** 2))
    kernel = torch.outer(bell, bell) / bell.sum() ** 2
    channels = images.shape[1]
    padded = F.pad(images, (2, 2, 2, 2), mode="reflect")
    smooth = F.conv2d(padded, kernel.expand(channels, 1, 5, 5), groups=channels)
    return F.mse_loss(images, smooth)


@contextmanager
def watched_statistics(teacher: nn.Module) -> Iterator[list[Tensor]]:
    """A list that gets the statistics loss of every BatchNorm layer in each forward."""
    losses: list[Tensor] = []

    def look(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        assert isinstance(layer, nn.BatchNorm2d)
        assert layer.running_mean is not None
        assert layer.running_var is not None
        variance, mean = torch.var_mean(inputs[0], dim=(0, 2, 3), correction=0)
        losses.append(
            statistics_loss(mean, variance.clamp_min(1e-8), layer.running_mean,
                            layer.running_var.clamp_min(1e-8))
        )  # fmt: skip

    hooks = [m.register_forward_hook(look) for m in teacher.modules()
             if isinstance(m, nn.BatchNorm2d)]  # fmt: skip
    try:
        yield losses
    finally:
        for hook in hooks:
            hook.remove()


def generator_loss(
    teacher: nn.Module, images: Tensor, noise: Tensor, seen: Tensor, labels: Labels
) -> Tensor:
    """The four terms, for images made of noise; `seen` are the classes to make."""
    with watched_statistics(teacher) as statistics:
        logits = teacher(images)[:, seen]
    wanted = logits.argmax(1) if labels == "teacher" else noise[:, : len(seen)].argmax(1)
    return (
        label_loss(logits, wanted)
        + BALANCE * balance_loss(logits)
        + STATISTICS * (torch.stack(statistics).mean() if statistics else images.sum() * 0)
        + SMOOTHNESS * smoothness_loss(images)
    )


def distillation_loss(old_head: nn.Linear, old: Tensor, new: Tensor, before: Tensor) -> Tensor:
    """The mean over samples of ‖W_o φ(x) − W_o φ_o(x)‖² / q: the old head sees what it saw.

    `new` are the features φ, `before` the teacher's φ_o, `old` the q old classes.
    """
    weight = old_head.weight[old]
    return ((new - before) @ weight.T).square().sum(1).mean() / len(old)
