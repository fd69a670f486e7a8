import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ofcl import bregman_information
from ofcl.models import MLP, SlimResNet18
from ofcl.uncertainty.perturbations import NoisyCopies
from ofcl.uncertainty.scorer import Scorer, uncertainty
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


def test_train_mode_uses_batch_statistics_and_leaves_the_model_as_it_was():
    model = SlimResNet18(1, 3, width=2)
    x = torch.randn(4, 1, 8, 8)
    before = {k: v.clone() for k, v in model.state_dict().items()}

    seen = {}
    for mode in ("train", "eval"):

        def keep(z, mode=mode):
            seen[mode] = z[0]
            return z[0, :, 0]

        uncertainty(model.eval(), x.unsqueeze(0), keep, mode)
        assert not model.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    with torch.no_grad():
        assert torch.allclose(seen["eval"], model.eval()(x), atol=1e-6)
        assert torch.allclose(seen["train"], model.train()(x), atol=1e-6)
    assert not torch.allclose(seen["train"], seen["eval"])


def test_in_train_mode_a_lone_small_image_can_be_scored():
    model = SlimResNet18(1, 3, width=2)
    assert uncertainty(model, torch.randn(4, 1, 1, 8, 8), bregman_information, "train").shape == (
        1,
    )


@pytest.mark.parametrize("as_of", ["current", "after-round", "before-round"])
def test_which_model_scores(as_of):
    model = MLP(3, 4, 2)
    scorer = Scorer(model, SCORES["lc"], as_of=as_of, perturb=NoisyCopies(1e-9, 1),
                    generator=torch.Generator())  # fmt: skip
    x = torch.randn(5, 3)

    def scale(factor):
        with torch.no_grad():
            model.head.weight.mul_(factor)

    def expected():
        return SCORES["lc"](model(x).unsqueeze(0)).detach()

    moments = {"initial": expected()}
    scale(3)  # learning
    moments["before"] = expected()
    wanted = "before" if as_of == "current" else "initial"
    assert torch.allclose(scorer.uncertainty_of(x), moments[wanted])
    scorer.round_passed("before-round")
    scale(2)  # taking the global model
    moments["after"] = expected()
    scorer.round_passed("after-round")
    scale(5)  # learning on
    moments["now"] = expected()
    wanted = {"current": "now", "after-round": "after", "before-round": "before"}[as_of]
    assert torch.allclose(scorer.uncertainty_of(x), moments[wanted], atol=1e-5)
