"""What methods are made from: a memory policy, or a generative method's two parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ofcl.memory.policy import Rekey
from ofcl.uncertainty.perturbations import Change
from ofcl.uncertainty.scorer import Scorer


@dataclass(frozen=True)
class PolicyParts:
    """A client's generator for random keys, how to make a scorer, and what policies are told."""

    generator: torch.Generator
    make_scorer: Callable[[str], Scorer]  # by the name of a score
    keep: Literal["bottom", "top"] = "bottom"
    rescore: Rekey = "every-round"


@dataclass(frozen=True)
class GenerativeParts:
    """What a generative method is built from, at a client or at the server."""

    model: nn.Module
    make_optimizer: Callable[[], torch.optim.Optimizer]
    generator: torch.Generator  # its own draws
    seed: int  # of the networks that it starts with
    shape: tuple[int, ...]  # of an image
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
    """Normalised images as people look at them: values from 0 to 1, on the CPU."""
    means, deviations = (torch.tensor(v, device=images.device).view(-1, 1, 1) for v in (mean, std))
    return (images * deviations + means).clamp(0, 1).cpu()
