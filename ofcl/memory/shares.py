"""How the room of a memory is split over the classes."""

from __future__ import annotations

from collections.abc import Mapping


def even_shares(counts: Mapping[int, int], size: int) -> dict[int, int]:
    """The room of each class: the same for all that can use it; the rest for the largest.

    >>> even_shares({0: 9, 1: 2, 2: 9}, 9)
    {0: 4, 1: 2, 2: 3}
    """
    shares, left = {}, size
    for place, c in enumerate(sorted(counts, key=lambda c: (counts[c], -c))):
        shares[c] = min(counts[c], left // (len(counts) - place))
        left -= shares[c]
    return dict(sorted(shares.items()))


def released_shares(counts: Mapping[int, int], size: int) -> dict[int, int]:
    """The paper's released code: rounded down, so that some room may stay empty.

    >>> released_shares({0: 9, 1: 2, 2: 9}, 9)
    {0: 3, 1: 2, 2: 3}
    """
    small = {c: n for c, n in counts.items() if n <= size // len(counts)}
    others = len(counts) - len(small)
    share = (size - sum(small.values())) // others if others else 0
    return {c: small.get(c, share) for c in counts}


SHARE_RULES = {"even": even_shares, "released": released_shares}
