import pytest
import torch

from ofcl import bregman_information
from ofcl.models import MLP, SlimResNet18
from ofcl.uncertainty.perturbations import NoisyCopies
from ofcl.uncertainty.scorer import Scorer, uncertainty
from ofcl.uncertainty.scores import SCORES


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
