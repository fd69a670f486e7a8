"""What a method's policy is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from ofcl.uncertainty import Scorer


@dataclass(frozen=True)
class PolicyParts:
    """A client's generator for random keys, how to make a scorer, and what policies are told."""

    generator: torch.Generator
    make_scorer: Callable[[], Scorer]
    keep: Literal["bottom", "top"] = "bottom"
    rescore: Literal["every-round", "every-batch"] = "every-round"
