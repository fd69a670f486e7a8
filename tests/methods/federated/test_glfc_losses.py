"""GLFC's terms, worked out by hand."""

import math

import pytest
import torch

from ofcl.methods.federated.glfc_losses import (
    compensation_loss,
    compensation_weights,
    mean_entropy,
    relation_loss,
)

OLD, SEEN = torch.tensor([True, False, False]), torch.tensor([True, True, False])
ALL = torch.ones(3, dtype=torch.bool)


def bce(p, wanted):
    """The binary cross-entropy of a probability."""
    return -wanted * math.log(p) - (1 - wanted) * math.log(1 - p)


def test_weights_are_gradients_relative_to_the_mean_of_their_group():
    # g = 1 − p of the sample's class: 0.2 of the old one; 0.1, 0.4 and 0.1 of new ones, mean 0.2
    p = torch.tensor([[0.8, 0.5, 0.5], [0.5, 0.9, 0.5], [0.5, 0.6, 0.5], [0.5, 0.5, 0.9]])
    y = torch.tensor([0, 1, 1, 2])
    weights = compensation_weights(p.logit(), y, OLD)
    assert weights.tolist() == pytest.approx([1, 0.5, 2, 0.5], rel=1e-5)
    assert compensation_weights(p.logit(), y, ~ALL).tolist() == [1, 1, 1, 1]
    # Without samples of an old class there is one group alone.
    assert compensation_weights(p.logit()[1:3], y[1:3], OLD).tolist() == pytest.approx([0.4, 1.6])
    # A sample that is perfectly known has no gradient, and no weight.
    sure = torch.tensor([[200.0, 0, 0]])
    assert compensation_weights(sure, torch.tensor([0]), OLD).tolist() == [0]


def test_compensation_sums_over_seen_classes_and_averages_over_samples():
    p = torch.tensor([[0.8, 0.3, 0.9], [0.4, 0.9, 0.1], [0.5, 0.6, 0.2]])
    y = torch.tensor([0, 1, 1])
    weights = [1, 0.1 / 0.25, 0.4 / 0.25]
    sums = [bce(0.8, 1) + bce(0.3, 0), bce(0.4, 0) + bce(0.9, 1), bce(0.5, 0) + bce(0.6, 1)]
    expected = sum(w * s for w, s in zip(weights, sums, strict=True)) / 3
    assert compensation_loss(p.logit(), y, OLD, SEEN).item() == pytest.approx(expected, rel=1e-5)


def test_relations_want_the_old_model_s_answer_for_old_classes():
    p, before = torch.tensor([[0.7, 0.6, 0.9]]), torch.tensor([[0.2, 0.99, 0.99]])
    y = torch.tensor([1])
    expected = bce(0.7, 0.2) + bce(0.6, 1)
    loss = relation_loss(p.logit(), y, before.logit(), OLD, SEEN)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    # Of a sample of an old class the old model's word counts, not the label.
    loss = relation_loss(p.logit(), torch.tensor([0]), before.logit(), OLD, SEEN)
    assert loss.item() == pytest.approx(bce(0.7, 0.2) + bce(0.6, 0), rel=1e-5)


def test_no_gradient_flows_through_the_weights():
    logits = torch.zeros(2, 3, requires_grad=True)
    compensation_loss(logits, torch.tensor([0, 1]), OLD, SEEN).backward()
    # Both weights are 1: the gradient of BCE is (p − y) / n
    assert logits.grad.flatten().tolist() == pytest.approx([-0.25, 0.25, 0, 0.25, -0.25, 0])


def test_entropy():
    p = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]).clamp_min(1e-30)
    assert mean_entropy(p.log()).item() == pytest.approx(math.log(2) / 2, rel=1e-5)
