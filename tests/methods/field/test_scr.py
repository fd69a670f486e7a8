"""SCR: the contrastive loss of projections, and a head that changes nothing else."""

import math

import pytest
import torch
from torch import nn

import ofcl
from ofcl.methods.additions import Step
from ofcl.methods.field.scr import ContrastiveReplay, projection
from ofcl.methods.losses import Contrast, cross_entropy, members
from ofcl.models.mlp import MLP
from ofcl.testing import TINY, make_blobs


class Bare(nn.Module):
    """A model of which features are given; it projects them as they are."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2, 2)
        self.companion = nn.Identity()
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)


def objective_of(features, y, views):
    model = Bare()
    n = len(y)
    logits = model.head(features).view(views, n, -1)
    step = Step(features, features, logits, y, n, members([0, 1], of=2), torch.empty(0), True)
    return ContrastiveReplay(model, cross_entropy, Contrast(1.0, 1.0))(step)


def test_the_loss_by_hand():
    # Two samples of different classes, two views each; the views of a sample are the same.
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0]] * 2, requires_grad=True)
    loss = objective_of(features, torch.tensor([0, 1]), views=2)
    # Each has one partner with cosine 1 and two strangers with cosine 0; the head knows nothing.
    contrast = math.log(math.e + 2) - 1
    assert loss.item() == pytest.approx(contrast + math.log(2))


def test_the_head_does_not_change_the_features():
    features = torch.tensor([[1.0, 0.0], [0.6, 0.8]], requires_grad=True)
    with_head = torch.autograd.grad(objective_of(features, torch.tensor([0, 0]), 1), features)[0]
    alone = Contrast(1.0, 1.0)(features, torch.tensor([0, 0]))
    assert torch.allclose(with_head, torch.autograd.grad(alone, features)[0])


def test_the_projection_travels_and_a_bundle_is_without_it(tmp_path):
    assert [p.shape for p in projection(MLP(8, 6, 4)).parameters()][2:] == [(128, 6), (128,)]
    result = ofcl.run(make_blobs(), **{**TINY, "method": "scr", "out": tmp_path / "run"})
    assert result.rounds > 0
    model = ofcl.load(tmp_path / "run")
    assert set(model.predict(make_blobs().x_test[:2])) <= set(model.labels)
    run = ofcl.Run(ofcl.make_settings({**TINY, "method": "scr"}), make_blobs())
    assert "companion.0.weight" in run.clients[0].update().state
