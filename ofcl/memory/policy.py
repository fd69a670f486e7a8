"""Policies: which samples a memory keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ofcl.memory.choice import Choice
from ofcl.memory.ranks import Ranks
from ofcl.uncertainty.scorer import Scorer

Key = Callable[..., Tensor]
"""Samples (n, …) → the numbers (n,) to sort them by; the smallest stay. The key of a policy that is
`labelled` takes the samples' classes (n,) too."""


class Unkeyed(NamedTuple):
    """Samples of a memory whose keys have to be computed.

    Args:
        x: The samples (n, …).
        y: Their classes (n,), on the CPU.
    """

    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class KeyByScore:
    """A key that is the uncertainty of a sample, so that the least uncertain stay, or the most.

    Args:
        scorer: Computes the uncertainty.
        top: Whether the most uncertain samples stay.
    """

    scorer: Scorer
    top: bool = False

    def __call__(self, x: Tensor, *y: Tensor) -> Tensor:
        """Computes the keys (n,) of samples (n, …), whose classes some scores want to know."""
        return self.of(self.scorer.uncertainty_of(x, *y))

    def of(self, uncertainty: Tensor) -> Tensor:
        """Turns uncertainties into keys."""
        return -uncertainty if self.top else uncertainty


Rekey = Literal["never", "on-arrival", "at-risk", "every-round", "every-batch"]
"""When keys are computed anew.

- `never`: a key is computed once, when it is needed, and kept.
- `on-arrival`: a key is computed once, when the sample arrives, and kept.
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
        labelled: Whether the key depends on the samples' classes too.
        choice: Which samples of a class stay, given their keys; by default those with the smallest.
        ranks: Turns keys into ranks among keys of the same time; None: they stay as they are. Keys
            must be computed on arrival.
        reversed: Whether a small key means that a sample is uncertain.
    """

    key: Key
    balanced: bool = True
    rekey: Rekey = "never"
    scorer: Scorer | None = None
    labelled: bool = False
    choice: Choice = Choice()  # noqa: RUF009 (it is frozen)
    ranks: Ranks | None = None
    reversed: bool = False

    def keys(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the keys of samples (n, …) of the classes y (n,)."""
        return self.key(x, y) if self.labelled else self.key(x)


def random_key(generator: torch.Generator) -> Key:
    """Returns a key drawn at random, with which a uniform sample stays.

    Args:
        generator: Where the keys are drawn from.
    """
    return lambda x: torch.rand(len(x), generator=generator)
