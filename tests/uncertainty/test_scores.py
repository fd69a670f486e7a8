import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ofcl import bregman_information
from ofcl.testing import check_score
from ofcl.uncertainty.scores import SCORES, find_score, of_mean_softmax

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


@pytest.mark.parametrize("label", [0, 1, 2])
def test_the_mean_loss_by_hand(label):
    p, q = (0.7, 0.2, 0.1)[label], (0.5, 0.3, 0.2)[label]
    y = torch.tensor([label])
    by_hand = -(math.log(p) + math.log(q)) / 2
    assert find_score("loss", "scores")(LOGITS, y).item() == pytest.approx(by_hand, abs=1e-6)
    of_mean = -math.log((p + q) / 2)
    assert find_score("loss", "softmax")(LOGITS, y).item() == pytest.approx(of_mean, abs=1e-6)


@pytest.mark.parametrize("average", ["scores", "softmax"])
def test_with_the_label_given_the_mean_loss_is_a_score(average):
    loss = find_score("loss", average)
    check_score(lambda logits: loss(logits, torch.zeros(logits.shape[1], dtype=torch.long)))


def test_the_mean_loss_is_bi_and_the_loss_of_the_mean_logits():
    """The decomposition: mean loss = loss of the mean prediction + Bregman information."""
    draw = torch.Generator().manual_seed(0)
    logits, y = torch.randn(5, 8, 4, generator=draw), torch.arange(8) % 4
    mean = torch.nn.functional.cross_entropy(logits.mean(0), y, reduction="none")
    whole = find_score("loss", "scores")(logits, y)
    assert torch.allclose(whole, mean + bregman_information(logits), atol=1e-5)
