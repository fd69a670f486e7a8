"""Policies: which samples a memory keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from ofcl.memory.choice import Choice
from ofcl.memory.ranks import Ranks
from ofcl.memory.shares import ShareRule
from ofcl.state import State
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


class Source(Protocol):
    """The part of a policy that follows the client's model, and that keys are made of.

    A `Scorer` is one; a method may have another.
    """

    @property
    def frozen(self) -> bool:
        """Whether gradient steps of the client's model leave the keys as they are."""

    def distances_between(self, x: Tensor) -> Tensor:
        """Computes the distance between every two samples (n, n), for a choice by distance."""

    def grow(self, classes: int, seed: int) -> None:
        """Is called when the client's model has got outputs for new classes."""

    def round_passed(self, when: Literal["before-round", "after-round"]) -> None:
        """Is called before the client takes the global model, and after it."""

    def state(self) -> State:
        """Returns what changes, for a checkpoint."""

    def load_state(self, state: State) -> None:
        """Restores what `state` returned."""


@dataclass(frozen=True)
class KeyByScore:
    """A key by a score: of each class the least uncertain samples stay, or the most uncertain.

    Args:
        scorer: Computes the uncertainty of samples.
        top: True: the most uncertain samples stay; False: the least uncertain.
    """

    scorer: Scorer
    top: bool = False

    def __call__(self, x: Tensor, *y: Tensor) -> Tensor:
        """Computes the keys of samples (n,).

        Args:
            x: The samples (n, …).
            y: Their classes (n,), on the CPU, for a labelled score; nothing for others.
        """
        return self.of(self.scorer.uncertainty_of(x, *y))

    def of(self, uncertainty: Tensor) -> Tensor:
        """Turns uncertainties into keys: negative ones if the most uncertain samples stay.

        Args:
            uncertainty: The uncertainty of each sample (n,).
        """
        return -uncertainty if self.top else uncertainty


Rekey = Literal["never", "on-arrival", "at-risk", "every-round", "every-batch"]
"""When keys are computed anew.

- `never`: a key is computed once, when it is needed, and kept.
- `on-arrival`: a key is computed once, when the sample arrives, and kept.
- `at-risk`: after a round, with every mini-batch: for the samples that would leave the memory
  first, half as many as the mini-batch has samples, and for the mini-batch itself.
- `every-round`: after a round, once for all samples.
- `every-batch`: with every mini-batch for all samples.
"""


@dataclass(frozen=True)
class Policy:
    """The rule by which a memory decides which samples stay; by default, the smallest keys do.

    Args:
        key: Computes the keys of samples.
        balanced: Whether every class has a share of the room; otherwise all samples compete.
        rekey: When keys are computed anew.
        scorer: Computes what the keys are made of; None: the keys need no model.
        labelled: Whether the key depends on the samples' classes too.
        choice: Which samples of a class stay, given their keys.
        ranks: Turns keys into ranks among the keys since the last round; None: keys stay as they
            are. Ranks need the `rekey` of `on-arrival`.
        reversed: Whether a small key means that a sample is uncertain.
        shares: How the room is split over the classes; None: as the memory's rule says.
    """

    key: Key
    balanced: bool = True
    rekey: Rekey = "never"
    scorer: Source | None = None
    labelled: bool = False
    choice: Choice = Choice()  # noqa: RUF009 (it is frozen)
    ranks: Ranks | None = None
    reversed: bool = False
    shares: ShareRule | None = None

    def keys(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes the keys of samples (n,).

        Args:
            x: The samples (n, …).
            y: Their classes (n,), on the CPU.
        """
        return self.key(x, y) if self.labelled else self.key(x)


def random_key(generator: torch.Generator) -> Key:
    """Makes a key that is a random number, so that every sample is equally likely to stay.

    Args:
        generator: The generator to draw from.

    Returns:
        The function that draws the keys (n,) of samples (n, …).
    """
    return lambda x: torch.rand(len(x), generator=generator)
