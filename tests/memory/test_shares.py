from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ofcl.memory.shares import even_shares, released_shares


@given(st.dictionaries(st.integers(0, 9), st.integers(1, 40), min_size=1), st.integers(10, 60))
def test_even_shares_are_those_of_ranks(counts, size):
    """Sorting all samples by their rank within the class and keeping the first gives these."""
    shares = even_shares(counts, size)
    ranks = sorted(rank for n in counts.values() for rank in range(n))[:size]
    taken = Counter(ranks)  # how many classes keep a sample of each rank
    assert sum(shares.values()) == len(ranks)
    assert all(sum(s > rank for s in shares.values()) == n for rank, n in taken.items())
    assert all(shares[c] <= counts[c] for c in counts)


def test_released_shares_are_rounded_down():
    assert released_shares({0: 50, 1: 50, 2: 50}, 100) == {0: 33, 1: 33, 2: 33}
