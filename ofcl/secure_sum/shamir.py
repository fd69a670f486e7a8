"""Shamir's secret sharing (1979): a secret in n shares, of which any t give it back.

The shares are points of a polynomial of degree t − 1 over the integers modulo a prime, whose
constant term is the secret. Fewer than t points say nothing about it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from ofcl.errors import OfclError

PRIME = 2**521 - 1  # a Mersenne prime, larger than any secret
BYTES = 66  # of a share


def split(secret: bytes, places: Sequence[int], threshold: int) -> dict[int, bytes]:
    """Splits a secret into shares.

    Args:
        secret: The secret, 64 bytes at most.
        places: Different numbers from 1, one for each share.
        threshold: How many shares are needed to give the secret back.

    Returns:
        The share of each place.

    >>> shares = split(b"abc", [1, 2, 3], threshold=2)
    >>> joined({1: shares[1], 3: shares[3]}, length=3)
    b'abc'
    """
    if not 1 <= threshold <= len(set(places)) or min(places) < 1 or len(secret) > BYTES - 2:
        raise ValueError(f"{threshold} of the places {list(places)}, for {len(secret)} bytes")
    terms = [int.from_bytes(secret, "big")]
    terms += [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    return {place: _value(terms, place).to_bytes(BYTES, "big") for place in places}


def _value(terms: Sequence[int], place: int) -> int:
    """Computes the value of a polynomial at a place."""
    value = 0
    for term in reversed(terms):
        value = (value * place + term) % PRIME
    return value


def joined(shares: Mapping[int, bytes], length: int) -> bytes:
    """Gives a secret back from exactly as many shares as its threshold.

    Args:
        shares: The shares by their places.
        length: The number of bytes of the secret.

    Raises:
        OfclError: If these are not shares of one secret of this length.
    """
    secret = 0
    for place, share in shares.items():
        above, below = 1, 1
        for other in shares:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        secret += int.from_bytes(share, "big") * above * pow(below, -1, PRIME)
    try:
        return (secret % PRIME).to_bytes(length, "big")
    except OverflowError:
        raise OfclError("shares of a secret do not fit together") from None
