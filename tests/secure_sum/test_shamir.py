import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofcl import OfclError
from ofcl.secure_sum.shamir import PRIME, joined, split


@given(st.binary(min_size=1, max_size=64), st.integers(1, 8), st.integers(0, 4), st.randoms())
def test_any_shares_that_are_enough_give_the_secret_back(secret, threshold, more, draw):
    places = draw.sample(range(1, 100), threshold + more)
    shares = split(secret, places, threshold)
    some = draw.sample(places, threshold)
    assert joined({place: shares[place] for place in some}, len(secret)) == secret


def test_fewer_shares_say_nothing():
    """With one share of two, every secret is as possible: some second share leads to each."""
    share = int.from_bytes(split(b"\x05", [1, 2], 2)[1], "big")
    for secret in (0, 5, 200):
        slope = (share - secret) % PRIME
        other = (secret + 2 * slope) % PRIME
        shares = {1: share.to_bytes(66, "big"), 2: other.to_bytes(66, "big")}
        assert joined(shares, 1) == bytes([secret])


def test_by_hand():
    """5 + 3x at 1 and 2."""
    assert joined({1: bytes([8]), 2: bytes([11])}, 1) == bytes([5])


def test_wrong_shares_are_noticed_and_wrong_uses_refused():
    shares = split(bytes(31) + b"\x01", [1, 2, 3], 2)
    with pytest.raises(OfclError, match="do not fit together"):
        joined({1: shares[1], 2: bytes(66)}, 32)
    with pytest.raises(ValueError, match="3 of the places"):
        split(b"x", [1, 2], 3)
