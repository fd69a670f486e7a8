"""FedCBDR's loss: temperatures and weights of old and new classes, worked out by hand."""

import math

import pytest
import torch

from ofcl.methods.federated.fedcbdr_loss import TaskAwareTemperature

CURRENT = torch.tensor([False, True])


def ce(old, new, label):
    """The cross-entropy of two logits."""
    return math.log(math.exp(old) + math.exp(new)) - (old, new)[label]


def test_old_and_new_samples_have_their_own_means_weights_and_temperatures():
    loss = TaskAwareTemperature(tau_old=0.5, tau_new=2.0, omega_old=3.0, omega_new=0.25)
    logits = torch.tensor([[1.0, 2.0], [0.0, 4.0], [1.0, -2.0]])
    y = torch.tensor([1, 1, 0])
    new = (ce(2, 1, 1) + ce(0, 2, 1)) / 2
    old = ce(2, -1, 0)
    expected = 3 * old + 0.25 * new
    assert loss(logits, y, 2, CURRENT).item() == pytest.approx(expected, rel=1e-6)


def test_without_samples_of_old_classes_it_is_plain_cross_entropy():
    logits, y = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([1, 1])
    expected = (ce(1, 2, 1) + ce(0, 4, 1)) / 2
    assert TaskAwareTemperature()(logits, y, 2, CURRENT).item() == pytest.approx(expected)


def test_the_first_dimension_is_that_of_views():
    loss = TaskAwareTemperature()
    logits, y = torch.randn(2, 3, 2), torch.tensor([[1, 0, 1], [1, 1, 1]])
    each = loss(logits, y, 1, CURRENT)
    assert each.tolist() == pytest.approx(
        [loss(logits[k], y[k], 1, CURRENT).item() for k in (0, 1)]
    )


def test_the_usual_values_are_the_paper_s():
    assert TaskAwareTemperature() == TaskAwareTemperature(0.9, 1.1, 1.1, 0.9)
