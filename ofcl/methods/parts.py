"""The parts that methods are made from: those of a memory policy, those of a generative method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ofcl.memory.policy import Rekey
from ofcl.uncertainty.change import Change
from ofcl.uncertainty.scorer import Scorer

Keep = Literal["bottom", "top", "weighted", "spread", "diverse"]
"""Which samples of a class stay: the least uncertain, the most uncertain, a weighted draw, spread
over the range of scores, or far from each other."""


@dataclass(frozen=True)
class PolicyParts:
    """The parts that a memory policy is made from, at one client.

    Args:
        generator: Draws random keys.
        make_scorer: Makes the scorer of a score's name.
        keep: Which samples of a class stay, by their score (`methods.policies.by_score`).
        rescore: When samples that are remembered are scored again.
        beta: The power of the score in a weighted reservoir.
        scale: Whether scores are compared as they are, or by their rank at the time of arrival.
        seed: The seed of draws that belong to a sample, different for each client.
    """

    generator: torch.Generator
    make_scorer: Callable[[str], Scorer]
    keep: Keep = "bottom"
    rescore: Rekey = "every-round"
    beta: float = -0.5
    scale: Literal["raw", "rank"] = "raw"
    seed: int = 0


@dataclass(frozen=True)
class GenerativeParts:
    """The parts that a generative method is made from, at a client or at the server.

    Args:
        model: The model that learns there.
        make_optimizer: Makes an optimiser of it.
        generator: The method's own draws.
        seed: The seed of the networks that it starts with.
        shape: The shape of an image.
        classes: The number of classes.
        mean: The mean of each channel, with which images are normalised.
        std: The deviation of each channel.
        width: Channels of the first block of its networks.
        steps: Gradient steps a mini-batch.
        augment: Changes new images in the steps after the first.
        synthetic, generator_steps, generator_labels: Settings of MFCL.
        consolidation, consistency, gan_lr: Settings of FedCIL.
    """

    model: nn.Module
    make_optimizer: Callable[[], torch.optim.Optimizer]
    generator: torch.Generator
    seed: int
    shape: tuple[int, ...]
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    width: int
    steps: int
    augment: Change | None
    synthetic: int
    generator_steps: int
    generator_labels: Literal["teacher", "noise"]
    consolidation: int
    consistency: float
    gan_lr: float


def shown(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Brings normalised images back to values from 0 to 1, on the CPU, for people to look at."""
    means, deviations = (torch.tensor(v, device=images.device).view(-1, 1, 1) for v in (mean, std))
    return (images * deviations + means).clamp(0, 1).cpu()
