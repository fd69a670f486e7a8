import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ofcl import bregman_information
from ofcl.uncertainty.scores import SCORES, of_mean_softmax

# Two copies of one sample, probabilities (0.7, 0.2, 0.1) and (0.5, 0.3, 0.2).
LOGITS = torch.tensor([[[0.7, 0.2, 0.1]], [[0.5, 0.3, 0.2]]]).log()


def entropy(*p):
    return -sum(x * math.log(x) for x in p)


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("lc", 1 - (0.7 + 0.5) / 2),
        ("ms", 1 - (0.5 + 0.2) / 2),
        ("rc", (0.2 / 0.7 + 0.3 / 0.5) / 2),
        ("en", (entropy(0.7, 0.2, 0.1) + entropy(0.5, 0.3, 0.2)) / 2),
        # LSE of log-probabilities is 0, so BI = −log Σ √(p q)
        ("bi", -math.log(sum(math.sqrt(p * q) for p, q in [(0.7, 0.5), (0.2, 0.3), (0.1, 0.2)]))),
    ],
)
def test_scores_by_hand(name, by_hand):
    assert SCORES[name](LOGITS).item() == pytest.approx(by_hand, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "by_hand"),  # of the mean prediction (0.6, 0.25, 0.15)
    [
        ("lc", 0.4),
        ("ms", 1 - 0.35),
        ("rc", 0.25 / 0.6),
        ("en", entropy(0.6, 0.25, 0.15)),
    ],
)
def test_scores_of_the_mean_softmax_by_hand(name, by_hand):
    assert of_mean_softmax(SCORES[name])(LOGITS).item() == pytest.approx(by_hand, abs=1e-6)


logits = arrays(
    "float32",
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(2, 6)),
    elements=st.floats(-30, 30, width=32),
).map(torch.from_numpy)


@given(logits, st.sampled_from(sorted(SCORES)))
def test_scores_are_not_negative_and_do_not_depend_on_order(z, name):
    score = SCORES[name]
    assert score(z).shape == (z.shape[1],)
    assert (score(z) >= 0).all()
    assert torch.allclose(score(z.flip(0)), score(z), atol=1e-4)  # order of the copies
    assert torch.allclose(score(z.flip(2)), score(z), atol=1e-4)  # names of the classes
    assert torch.allclose(score(z + 3.0), score(z), atol=1e-4)  # softmax does not see it


@given(logits)
def test_bregman_information_is_zero_when_the_copies_agree(z):
    assert bregman_information(z[:1].repeat(4, 1, 1)).abs().max() < 1e-4
