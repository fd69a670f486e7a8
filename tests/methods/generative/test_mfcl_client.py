import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ofcl.methods.generative.mfcl_client import MFCLLesson
from ofcl.models.generators import NOISE


class Student(nn.Module):
    """Features as they come, and a linear head: everything can be computed from outside."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.head = nn.Linear(4, 4)

    def features(self, x):
        return x.flatten(1) * self.scale

    def forward(self, x):
        return self.head(self.features(x))


class Maker(nn.Module):
    def forward(self, noise):
        return noise[:, :4].view(-1, 1, 2, 2)


def make_lesson(model):
    return MFCLLesson(model, Maker(), torch.Generator().manual_seed(3), synthetic=6)


def test_the_client_s_loss_is_the_sum_of_its_three_terms():
    torch.manual_seed(0)
    model = Student()
    lesson = make_lesson(model)
    lesson.receives(model.state_dict(), {"old": torch.tensor([0, 1])})
    model.scale.data.fill_(1.5)
    x, y, current = torch.randn(3, 1, 2, 2), torch.tensor([2, 3, 2]), [2, 3]
    loss, logits = lesson.loss(model, x, y, current)
    noise = torch.randn(6, NOISE, generator=torch.Generator().manual_seed(3))
    made = noise[:, :4]
    old_logits = model.head(made)[:, :2]  # the teacher's scale was 1, its head the same
    made_y = old_logits.argmax(1)
    both = torch.cat([x.flatten(1), made])
    first = F.cross_entropy(logits[:, 2:], y - 2)
    second = F.cross_entropy(model.head(1.5 * both), torch.cat([y, made_y]))
    moved = (0.5 * both) @ model.head.weight[:2].T
    third = 0.1 * moved.square().sum(1).mean() / 2
    assert loss.item() == pytest.approx((first + second + third).item(), rel=1e-5)
    # The second term moves the head alone.
    loss.backward()
    own = torch.autograd.grad(F.cross_entropy(lesson.loss(model, x, y, current)[1][:, 2:], y - 2),
                              model.scale)  # fmt: skip
    assert model.scale.grad.item() == pytest.approx(
        own[0].item() + 0.1 * (both @ model.head.weight[:2].T).square().sum(1).mean().item() * 0.5,
        rel=1e-4,
    )


def test_the_first_task_is_plain_cross_entropy():
    model = Student()
    x, y = torch.randn(3, 1, 2, 2), torch.tensor([2, 3, 2])
    loss, logits = make_lesson(model).loss(model, x, y, [2, 3])
    assert loss.item() == pytest.approx(F.cross_entropy(model(x), y).item())
