import math

import pytest
import torch

from ofcl.methods.losses import asymmetric_cross_entropy, cross_entropy, members, proximal_term

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
