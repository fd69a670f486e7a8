"""Policies: which samples a memory keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ofcl.uncertainty.scorer import Scorer

Key = Callable[[Tensor], Tensor]
"""Samples (n, …) → the numbers (n,) to sort them by; the smallest stay."""

Rekey = Literal["never", "at-risk", "every-round", "every-batch"]
"""When keys are computed anew.

- `never`: a key is computed once and kept.
- `at-risk`: after a round, with every mini-batch for the samples that would go first, half as many
  as it has samples.
- `every-round`: after a round, once for all samples.
- `every-batch`: with every mini-batch for all samples.
"""


@dataclass(frozen=True)
class Policy:
    """Which samples a memory keeps: of each class those with the smallest keys.

    Args:
        key: Computes the keys of samples.
        balanced: Whether every class has a share of the room; otherwise all samples compete.
        rekey: When keys are computed anew.
        scorer: The model that the keys depend on, if they depend on one.
    """

    key: Key
    balanced: bool = True
    rekey: Rekey = "never"
    scorer: Scorer | None = None


def random_key(generator: torch.Generator) -> Key:
    """Returns a key drawn at random, with which a uniform sample stays.

    Args:
        generator: Where the keys are drawn from.
    """
    return lambda x: torch.rand(len(x), generator=generator)
