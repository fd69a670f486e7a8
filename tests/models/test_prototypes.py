"""Prototypes worked out by hand, and predictions by the nearest one."""

import pytest
import torch

from ofcl.models.mlp import MLP
from ofcl.models.prototypes import (
    COUNTS,
    PROTOTYPES,
    SUMMED,
    SUMS,
    NearestMean,
    feature_sums,
    prototypes,
)


def as_they_are(classes=3):
    """A network whose features are its (positive) inputs."""
    model = MLP(2, 2, classes)
    with torch.no_grad():
        model.hidden.weight.copy_(torch.eye(2))
        model.hidden.bias.zero_()
    return model


X = torch.tensor([[3.0, 4.0], [5.0, 0.0], [0.0, 0.5], [0.0, 0.0]])
Y = torch.tensor([0, 0, 2, 2])


def test_features_of_length_one_are_added_up_by_class():
    model = as_they_are().train()
    sums = feature_sums(model, X, Y)
    expected = torch.tensor([[1.6, 0.8], [0.0, 0.0], [0.0, 1.0]])  # (0.6, 0.8) + (1, 0); (0, 1) + 0
    assert torch.allclose(sums[SUMS], expected)
    assert sums[SUMMED].tolist() == [2, 0, 2]
    assert model.training


def test_nothing_remembered_gives_zeros_and_no_prototypes():
    sums = feature_sums(as_they_are(), X[:0], Y[:0])
    assert (sums[SUMS].shape, sums[SUMS].any().item()) == ((3, 2), False)
    assert prototypes([sums, sums]) == {}
    assert prototypes([]) == {}


def test_prototypes_of_several_memories_are_those_of_one_with_all_samples():
    model = as_they_are()
    parts = [feature_sums(model, X[rows], Y[rows]) for rows in ([0, 2], [1], [3])]
    means = prototypes(parts)
    assert torch.allclose(means[PROTOTYPES], torch.tensor([[0.8, 0.4], [0.0, 0.0], [0.0, 0.5]]))
    assert means[COUNTS].tolist() == [2, 0, 2]


def test_a_client_may_know_fewer_classes():
    narrow = feature_sums(as_they_are(classes=2), X[:1], Y[:1])
    wide = feature_sums(as_they_are(classes=3), X[2:3], Y[2:3])
    means = prototypes([narrow, wide])
    assert torch.allclose(means[PROTOTYPES], torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]]))
    assert means[COUNTS].tolist() == [1, 0, 1]


@pytest.mark.parametrize("training", [True, False])
def test_the_nearest_prototype_is_predicted_and_never_a_class_without_one(training):
    model = as_they_are().train(training)
    means = {PROTOTYPES: torch.tensor([[0.8, 0.4], [0.0, 0.0], [0.0, 0.5]]),
             COUNTS: torch.tensor([2, 0, 2])}  # fmt: skip
    nearest = NearestMean(model, means)
    assert nearest.training == model.training == training
    scores = nearest(torch.tensor([[7.0, 0.0], [0.0, 9.0], [0.0, 0.0]]))
    expected = [[-0.2, -torch.inf, -1.25], [-1.0, -torch.inf, -0.25], [-0.8, -torch.inf, -0.25]]
    assert torch.allclose(scores * 0.15, torch.tensor(expected))
    assert torch.equal(nearest.features(X), X)
    assert scores.argmax(1).tolist() == [0, 2, 2]  # class 1 would be nearest to the zeros
