"""GLFC at a client: the objective, and when classes become old."""

import math

import pytest
import torch

from ofcl.methods.additions import Step
from ofcl.methods.federated.glfc_client import GLFC
from ofcl.methods.federated.glfc_losses import compensation_loss, relation_loss
from ofcl.models.head import grow_head
from tests.methods.federated.small import Plain


def step(model, x, y, *, is_first=True):
    logits = model(x)
    return Step(x, x, logits[None], y, len(y), torch.ones(3).bool(), torch.empty(0), is_first)


def mask(*classes, of=3):
    return torch.tensor([c in classes for c in range(of)])


def test_until_new_classes_come_the_objective_is_plain_binary_cross_entropy():
    model = Plain(1, 3)
    glfc = GLFC(model)
    glfc.before_steps(1, mask(0, 1))
    loss = glfc(step(model, torch.ones(1, 1), torch.tensor([0])))
    assert loss.item() == pytest.approx(2 * math.log(2))  # two classes seen, both at ½


def test_with_old_classes_it_is_half_of_each_term_and_the_old_model_is_the_last_global_one():
    model = Plain(1, 3)
    glfc = GLFC(model)
    glfc.before_steps(1, mask(0, 1))
    model.head.bias.data = torch.tensor([1.0, -1.0, 0.0])
    glfc.after_round({})
    model.head.bias.data = torch.tensor([5.0, 5.0, 5.0])  # as learned since then
    glfc.before_steps(2, mask(2))
    x, y = torch.ones(2, 1), torch.tensor([2, 0])
    old_logits = torch.tensor([[1.0, -1.0, 0.0]] * 2)
    terms = (
        compensation_loss(model(x), y, mask(0, 1), mask(0, 1, 2)),
        relation_loss(model(x), y, old_logits, mask(0, 1), mask(0, 1, 2)),
    )
    assert glfc(step(model, x, y)).item() == pytest.approx(sum(terms).item() / 2)


def noticed(entropies, rise=0.5):
    """Whether classes are old after the first mini-batches behind rounds, with these entropies."""
    model = Plain(1, 4)
    glfc, found = GLFC(model, rise), []
    glfc.before_steps(1, mask(0, 1, of=4))
    for entropy in entropies:
        glfc.after_round({})
        # Of two classes alone: p and 1 − p with the wanted entropy.
        low, high = 1e-9, 0.5
        for _ in range(60):
            p = (low + high) / 2
            small = -p * math.log(p) - (1 - p) * math.log(1 - p) < entropy
            low, high = (p, high) if small else (low, p)
        model.head.bias.data = torch.tensor([math.log(p), math.log(1 - p), -50.0, -50.0])
        glfc(step(model, torch.ones(1, 1), torch.tensor([0])))
        glfc.after_steps(1)
        glfc.after_steps(1)  # the second mini-batch after a round does not count
        found.append(bool(glfc._old.any()))
    return found


def test_without_tasks_a_rise_of_the_entropy_is_the_sign():
    assert noticed([0.1, 0.5, 0.65, 0.1, 0.59]) == [False] * 5
    assert noticed([0.1, 0.05, 0.56]) == [False, False, True]


def test_where_tasks_are_known_the_entropy_does_not_count():
    model = Plain(1, 3)
    glfc = GLFC(model, rise=0.1)
    glfc.before_steps(1, mask(0))
    glfc.before_steps(1, mask(1))
    for size in (50.0, 0.0):  # sure, then not at all
        glfc.after_round({})
        model.head.bias.data = torch.tensor([size, 0, 0])
        glfc(step(model, torch.ones(1, 1), torch.tensor([1])))
        glfc.after_steps(1)
    assert glfc._old.tolist() == [True, False, False]


def test_a_saved_state_goes_on_and_heads_grow():
    model = Plain(1, 2)
    glfc, other = GLFC(model), GLFC(model)
    glfc.before_steps(1, mask(0, of=2))
    model.head.bias.data = torch.tensor([1.0, 2.0])
    glfc.after_round({})
    glfc.before_steps(1, mask(1, of=2))
    other.load_state(glfc.state())
    x, y = torch.ones(2, 1), torch.tensor([0, 1])
    assert torch.equal(glfc(step(model, x, y)), other(step(model, x, y)))
    grow_head(model, 4, seed=0)
    glfc.grow(4, seed=0)
    glfc.before_steps(1, mask(1, 3, of=4))
    assert glfc._seen.tolist() == [True, True, False, True]
    assert glfc(step(model, x, y)).isfinite()
