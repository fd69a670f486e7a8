import math

import pytest
import torch

from ofcl.methods.losses import (
    Contrast,
    asymmetric_cross_entropy,
    cross_entropy,
    members,
    proximal_term,
)

LOGITS = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]])
Y = torch.tensor([0, 2])


def ce(logits, y):
    return math.log(sum(map(math.exp, logits))) - logits[y]


def test_cross_entropy_by_hand():
    expected = (ce([1, 2, 0], 0) + ce([0, 1, 3], 2)) / 2
    assert cross_entropy(LOGITS, Y, 1, members([0], of=3)).item() == pytest.approx(expected)


def test_asymmetric_new_samples_compete_only_within_their_task():
    loss = asymmetric_cross_entropy(LOGITS, Y, 1, members([0, 1], of=3))
    expected = (ce([1, 2], 0) + ce([0, 1, 3], 2)) / 2
    assert loss.item() == pytest.approx(expected)


def test_asymmetric_does_not_push_old_outputs_down():
    logits = LOGITS.clone().requires_grad_()
    asymmetric_cross_entropy(logits, Y, 1, members([0, 1], of=3)).backward()
    assert logits.grad[0, 2] == 0
    assert logits.grad[1].abs().min() > 0


@pytest.mark.parametrize(
    ("kind", "by_hand"), [("squared", 0.05 * (9 + 16 + 4)), ("norms", 0.05 * (5 + 2))]
)
def test_proximal_term_by_hand(kind, by_hand):
    parameters = [torch.tensor([4.0, 4.0]), torch.tensor([[2.0]])]
    anchor = [torch.tensor([1.0, 0.0]), torch.tensor([[0.0]])]
    assert proximal_term(parameters, anchor, 0.1, kind).item() == pytest.approx(by_hand)


@pytest.mark.parametrize("kind", ["squared", "norms"])
def test_at_the_anchor_the_proximal_term_pulls_nowhere(kind):
    w = torch.ones(3, requires_grad=True)
    proximal_term([w], [torch.ones(3)], 0.1, kind).backward()
    assert w.grad.tolist() == [0, 0, 0]


def test_contrastive_term_by_hand():
    """Two samples of class 0 and one of class 1, which has no partner and does not count."""
    features = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    y = torch.tensor([0, 0, 1])
    # Cosines: 0 between the first two, 1 of the first and the third, 0 of the second and the third.
    first = math.log(math.exp(0) + math.exp(1 / 0.5)) - 0
    second = math.log(math.exp(0) + math.exp(0)) - 0
    expected = 0.25 * (first + second) / 2
    assert Contrast(0.25, 0.5)(features, y).item() == pytest.approx(expected)


def test_contrastive_term_of_stacked_clients_is_that_of_each():
    features, y = torch.randn(3, 8, 4), torch.randint(0, 3, (3, 8))
    term = Contrast(1.0)
    together = term(features, y)
    assert torch.allclose(
        together, torch.stack([term(f, c) for f, c in zip(features, y, strict=True)])
    )


def test_without_partners_the_contrastive_term_is_zero():
    assert Contrast(1.0)(torch.randn(3, 4), torch.tensor([0, 1, 2])).item() == 0
