"""The vector of a party in a secure sum: integers that are masked and added up."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NOTHING = torch.zeros(0, dtype=torch.int8)


class Vector(NamedTuple):
    """Integers modulo 2^64, and small ones modulo 2^8 or 2^16; sums wrap around.

    Args:
        exact: Numbers in fixed point, and the weight at the end (`fixed_point`).
        small: Coded changes (`coding`); often there are none.
    """

    exact: Tensor
    small: Tensor = NOTHING

    def plus(self, other: Vector, sign: int = 1) -> Vector:
        """Adds another vector of the same form, or subtracts it.

        >>> Vector(torch.tensor([2**62]), torch.tensor([100], dtype=torch.int8)).plus(
        ...     Vector(torch.tensor([1]), torch.tensor([100], dtype=torch.int8))
        ... ).small.tolist()
        [-56]

        Args:
            other: The other vector.
            sign: 1 adds, −1 subtracts.
        """
        return Vector(self.exact + sign * other.exact, self.small + sign * other.small)

    def state(self) -> dict[str, Tensor]:
        """Gives the tensors that travel."""
        return {"masked": self.exact, **({"small": self.small} if len(self.small) else {})}

    @classmethod
    def read(cls, state: dict[str, Tensor]) -> Vector:
        """Reads what `state` gave.

        Args:
            state: The tensors.
        """
        return cls(state["masked"], state.get("small", NOTHING))
