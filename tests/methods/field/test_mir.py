"""MIR: which samples a virtual step would hurt most."""

import math

import pytest
import torch
from torch import nn

import ofcl
from ofcl.methods.field.mir import Interference
from ofcl.testing import TINY, make_blobs


class Scale(nn.Module):
    """Two classes, one weight w: the logits of x are (w · x, 0)."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))
        self.seen = nn.BatchNorm1d(1)  # it is not used but has buffers

    def forward(self, x):
        return torch.cat([self.w * x, torch.zeros_like(x)], 1)


def test_by_hand():
    # The new sample x = 1 is of class 0: the gradient of w is −1/2, so w' = 0 + 2 · 1/2 = 1.
    model = Scale()
    x = torch.tensor([[1.0], [2.0], [2.0], [1.0], [-1.0]])
    y = torch.tensor([0, 0, 1, 1, 0])
    interference = Interference(model, lr=2.0)
    raised = interference.raised(x, y, new=1)

    def after(logit):  # ln(1 + e^−z) less ln 2, with z the logit for the right class
        return math.log(1 + math.exp(-logit)) - math.log(2)

    assert raised.tolist() == pytest.approx([after(2), after(-2), after(-1), after(-1)], abs=1e-6)
    assert interference(x, y, 1, 1).tolist() == [1]  # x = 2 of class 1 is hurt most
    assert model.w.item() == 0.0
    assert model.w.grad is None


def test_statistics_do_not_change():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Interference(model, 0.1)(torch.randn(9, 3), torch.arange(9) % 2, 4, 2)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_under_strong_new_classes_are_told_from_old_ones():
    run = ofcl.Run(
        ofcl.make_settings({**TINY, "method": "mir", "protocol": "strong"}), make_blobs()
    )
    assert run.settings.loss == "ce"
    assert "loss" not in run.settings.fit
