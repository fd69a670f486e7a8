"""Shares: the room of each class in a memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

ShareRule = Callable[[Mapping[int, int], int], dict[int, int]]
"""The number of samples of each class, and the size of the memory → the room of each class."""


def even_shares(counts: Mapping[int, int], size: int) -> dict[int, int]:
    """Gives every class the same room; what a small class does not need goes to the others.

    Where the room cannot be split evenly, the classes with the most samples get one more.

    >>> even_shares({0: 9, 1: 2, 2: 9}, 9)
    {0: 4, 1: 2, 2: 3}

    Args:
        counts: The number of samples of each class.
        size: The number of samples that fit in the memory.

    Returns:
        The room of each class, in samples.
    """
    shares, left = {}, size
    for place, c in enumerate(sorted(counts, key=lambda c: (counts[c], -c))):
        shares[c] = min(counts[c], left // (len(counts) - place))
        left -= shares[c]
    return dict(sorted(shares.items()))


def released_shares(counts: Mapping[int, int], size: int) -> dict[int, int]:
    """Splits the room as the paper's released code does: rounded down, so places may stay empty.

    >>> released_shares({0: 9, 1: 2, 2: 9}, 9)
    {0: 3, 1: 2, 2: 3}

    Args:
        counts: The number of samples of each class.
        size: The number of samples that fit in the memory.

    Returns:
        The room of each class, in samples.
    """
    small = {c: n for c, n in counts.items() if n <= size // len(counts)}
    others = len(counts) - len(small)
    share = (size - sum(small.values())) // others if others else 0
    return {c: small.get(c, share) for c in counts}


SHARE_RULES: dict[str, ShareRule] = {"even": even_shares, "released": released_shares}
"""Every rule by name."""
