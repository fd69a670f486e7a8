"""Policies: which samples a memory keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ofcl.uncertainty.scorer import Scorer

Key = Callable[[Tensor], Tensor]
"""Samples x (n, …) → what to sort them by (n,); the smallest stay."""


Rekey = Literal["never", "at-risk", "every-round", "every-batch"]
"""When keys are computed anew: never (drawn on arrival they last); after a round those that would
go first, half as many in a mini-batch as it has samples; after a round all; with every one."""


@dataclass(frozen=True)
class Policy:
    """Which samples stay.

    `balanced` splits the room evenly over the classes. A key that depends on a model comes with
    the `scorer` that holds it.
    """

    key: Key
    balanced: bool = True
    rekey: Rekey = "never"
    scorer: Scorer | None = None


def random_key(generator: torch.Generator) -> Key:
    """A key drawn at random: a uniform sample stays."""
    return lambda x: torch.rand(len(x), generator=generator)
