"""LwF: its loss, and when the last global model becomes the teacher."""

import math

import pytest
import torch

from ofcl.methods.field.lwf import softened_cross_entropy
from ofcl.methods.field.teacher import Teacher
from ofcl.methods.losses import members
from ofcl.models.mlp import MLP


def test_the_loss_by_hand():
    # Halved by the temperature, the teacher's logits are (ln 3, 0): 3/4 and 1/4.
    taught = torch.tensor([[2 * math.log(3), 0.0, 50.0]])
    logits = torch.tensor([[0.0, 2 * math.log(4), -50.0]])  # 1/5 and 4/5
    known = torch.tensor([True, True, False])
    wanted = 0.75 * math.log(5) + 0.25 * math.log(5 / 4)
    assert softened_cross_entropy(logits, taught, known).item() == pytest.approx(wanted)


def test_a_teacher_that_knows_nothing_changes_nothing():
    logits = torch.randn(3, 4, requires_grad=True)
    loss = softened_cross_entropy(logits, torch.randn(3, 4), torch.zeros(4, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.item() == 0.0
    assert not gradient.any()


def marked(model, value):
    """Sets the first bias of a model, by which it is recognised."""
    with torch.no_grad():
        model.head.bias[0] = value
    return model


def who_teaches(teacher):
    return teacher.logits(torch.zeros(1, 2))[0, 0].item() - offset(teacher)


def offset(teacher):
    """The first logit without its bias."""
    head = teacher._teaching.head
    return teacher.logits(torch.zeros(1, 2))[0, 0].item() - head.bias[0].item()


@pytest.mark.parametrize("moment", ["task", "round"])
def test_when_the_global_model_teaches(moment):
    model = MLP(2, 3, 4)
    teacher = Teacher(model, moment)
    first, second = members([0, 1], 4), members([2], 4)
    teacher.before_steps(5, first)
    marked(model, 10.0)
    teacher.after_round({})
    assert teacher.known.tolist() == (first.tolist() if moment == "round" else [False] * 4)
    marked(model, 20.0)  # learned since
    teacher.end_task()
    teacher.before_steps(5, second)
    assert who_teaches(teacher) == pytest.approx(10.0, abs=1e-5)
    assert teacher.known.tolist() == first.tolist()


def test_the_closing_round_counts_to_its_task():
    model = MLP(2, 3, 4)
    teacher = Teacher(model, "task")
    teacher.before_steps(5, members([0], 4))
    teacher.end_task()
    marked(model, 30.0)
    teacher.after_round({})
    teacher.before_steps(5, members([1], 4))
    assert who_teaches(teacher) == pytest.approx(30.0, abs=1e-5)


def test_without_a_round_the_own_model_teaches():
    model = MLP(2, 3, 4)
    teacher = Teacher(model, "task")
    teacher.before_steps(5, members([0], 4))
    marked(model, 40.0)
    teacher.end_task()
    teacher.before_steps(5, members([1], 4))
    assert who_teaches(teacher) == pytest.approx(40.0, abs=1e-5)
