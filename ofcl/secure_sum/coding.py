"""Fewer bytes in a secure sum: changes of the model in whole steps that all parties share.

With `compress = "int8"`, a party's vector has the change since the global model instead of the
model: times the party's share of all weights, in whole steps. The steps are the same for all, so
such integers add up, masked as they are: modulo 2^8 for up to 16 parties, modulo 2^16 for more. No
sum wraps around, because each party has room for its share alone. What does not fit, and what
rounding loses, is added to the party's next change (`compression.differences`).

With each sum, the server learns how far the changes of all parties go on average (the largest
number of each tensor, masked like everything else); the steps of the next sum follow from that, and
the first sum is in fixed point. Were the server to say one thing to one party and another to
others, it could make all vectors but one nearly zero. So the masks of a pair depend on what both
were told: if that differs, they do not cancel, and the sum says nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.state import State, Tensors
from ofcl.update import is_statistic

MOST_WEIGHT = 10**9  # samples of one party
FEW = 16  # parties whose integers have 8 bits; of equal weights, each has room for 7 steps or more
ROOM = 1.5  # a change may go so many times as far as changes of the last sum went on average
LEAST = 1e-6  # how far it may go at least


class SumCoder(Protocol):
    """Codes the change of one party's model."""

    def base(self) -> int:
        """Computes the checksum of the global model that the party has."""

    def reach(self) -> dict[str, float]:
        """Computes how far the change goes, with what was lost before, for each tensor."""

    def code(
        self, outputs: int, steps: Mapping[str, float], share: float, most: int
    ) -> tuple[Tensors, Tensors]:
        """Codes the change since the global model, and what was lost before.

        Args:
            outputs: How many outputs the heads of all parties have.
            steps: The step of each tensor.
            share: The party's share of all weights, by which the change is multiplied.
            most: The largest integer.

        Returns:
            Integers by the names of tensors, and the tensors that are not coded.
        """


@dataclass(frozen=True)
class Coding:
    """The steps of a sum, as all its parties are told.

    Args:
        base: The checksum of the global model from which changes are counted.
        reach: How far a change may go, for each tensor.
        weight: The weight of all parties together.
        parties: How many there are.
    """

    base: int
    reach: Mapping[str, float]
    weight: int
    parties: int

    @property
    def dtype(self) -> torch.dtype:
        """The type of the integers, which holds the sum of all parties'."""
        return torch.int8 if self.parties <= FEW else torch.int16

    @property
    def most_of_all(self) -> int:
        """The largest sum."""
        return torch.iinfo(self.dtype).max

    @property
    def steps(self) -> dict[str, float]:
        """The step of each tensor."""
        return {name: reach / self.most_of_all for name, reach in self.reach.items()}

    def most(self, weight: int) -> int:
        """Computes the largest integer of a party: its share of the room, and one.

        >>> coding = Coding(0, {}, weight=4, parties=3)
        >>> [coding.most(weight) for weight in (1, 1, 2)]
        [32, 32, 63]

        Args:
            weight: The weight of the party.
        """
        return 1 + (self.most_of_all - self.parties) * weight // self.weight

    def digest(self) -> str:
        """Computes the text by which the masks of two parties depend on what they were told."""
        content = json.dumps(self.state(), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def state(self) -> State:
        """Gives it as plain values, which travel."""
        return {**vars(self), "reach": dict(self.reach)}

    @classmethod
    def read(cls, state: Any, parties: int) -> Coding:
        """Reads what `state` gave.

        Args:
            state: What has come from the server.
            parties: How many parties the sum has.

        Raises:
            OfclError: If it cannot be.
        """
        try:
            reach = {str(name): float(value) for name, value in state["reach"].items()}
            coding = cls(int(state["base"]), reach, int(state["weight"]), int(state["parties"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise OfclError("the server's steps of a sum cannot be read") from None
        if not all(LEAST <= value < math.inf for value in reach.values()):
            raise OfclError(
                "the server's steps of a sum cannot be: one is too small, or not finite"
            )
        if coding.parties != parties or not 0 < coding.weight <= parties * MOST_WEIGHT:
            raise OfclError("the server's steps of a sum are for other parties, or another weight")
        return coding


def coded_of(tensors: Tensors) -> Tensors:
    """Selects the tensors that are coded: all but BatchNorm's statistics.

    Args:
        tensors: The tensors of an update.
    """
    return {name: value for name, value in tensors.items() if not is_statistic(name)}


def mean_change(total: Tensor, coding: Coding, weight: int, like: Tensors) -> Tensors:
    """Reads the weighted mean of all changes from the sum of their integers.

    Args:
        total: The sum.
        coding: What the parties were told.
        weight: The weight of those whose integers are in the sum.
        like: Tensors of the names and shapes of those that are coded.
    """
    scale = coding.weight / weight
    mean, start = {}, 0
    for name in sorted(like):
        part = total[start : start + like[name].numel()].double().reshape(like[name].shape)
        mean[name] = part * (coding.steps[name] * scale)
        start += like[name].numel()
    return mean


def as_tensors(reach: Mapping[str, float]) -> Tensors:
    """Puts how far changes go into tensors, which are summed like others, in fixed point.

    Args:
        reach: How far a party's change goes, for each tensor.
    """
    return {f"reach.{name}": torch.tensor([value]) for name, value in reach.items()}


def next_reach(went: Tensors, reach: Mapping[str, float]) -> dict[str, float]:
    """Computes how far a change may go in the next sum.

    Args:
        went: How far changes went in this sum, on average, as `as_tensors` names them.
        reach: How far they were allowed to go; {}: any distance.
    """
    far = {name.removeprefix("reach."): float(value) for name, value in went.items()}
    # It sinks slowly: one calm round does not mean that all that follow are calm.
    return {
        name: min(max(ROOM * value, reach.get(name, 0.0) / 2, LEAST), 1e30)
        for name, value in far.items()
    }
