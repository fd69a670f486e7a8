"""Masks of secure aggregation: vectors that look random, and cancel or are taken off in the sum.

Two parties share a pairwise mask: the one with the smaller number adds it, the other subtracts it.
Each party also adds a self mask. The server can take either kind off, never both of one party.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ofcl.secure_sum.primitives import agreed, stream
from ofcl.secure_sum.vectors import Vector

FEWEST = 3  # parties of a sum: in a sum of two, each would see the other's update


def threshold(parties: int) -> int:
    """Computes how many parties must stay until the end of a sum: two thirds, rounded up.

    Two groups of so many parties have more than a third of all parties in common. So a server that
    tells two groups different things gets both kinds of shares of one party only with the help of
    a third of the parties.

    >>> [threshold(n) for n in (3, 4, 10, 50)]
    [2, 3, 7, 34]

    Args:
        parties: How many parties have sent their keys.
    """
    return math.ceil(2 * parties / 3)


def mask(seed: bytes, like: Vector) -> Vector:
    """Stretches a seed to a mask.

    Args:
        seed: The seed, 32 bytes.
        like: A vector of the form that the mask has.
    """
    exact, small = 8 * len(like.exact), like.small.element_size() * len(like.small)
    drawn = bytearray(stream(seed, exact + small))
    return Vector(_integers(drawn[:exact], torch.int64), _integers(drawn[exact:], like.small.dtype))


def _integers(drawn: bytearray, dtype: torch.dtype) -> Tensor:
    """Reads bytes as integers of a type."""
    return torch.frombuffer(drawn, dtype=dtype) if drawn else torch.zeros(0, dtype=dtype)


def pair_seed(private: bytes, public: bytes, about: str, one: int, other: int) -> bytes:
    """Computes the seed of the mask that two parties share.

    Args:
        private: The private mask key of one of them.
        public: The public mask key of the other one.
        about: The run and the number of the sum.
        one: The number of one party.
        other: The number of the other party; the order of the two does not matter.
    """
    first, second = sorted((one, other))
    return agreed(private, public, f"ofcl pairwise mask {about} {first} {second}")


def sign(one: int, other: int) -> int:
    """Tells whether the first of two parties adds the mask that they share (1) or subtracts it.

    Args:
        one: The number of the first party.
        other: The number of the other party.
    """
    return 1 if one < other else -1
