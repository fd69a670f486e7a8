"""Re-Fed: gradients of single samples, importance along the way, the samples that stay."""

import math

import pytest
import torch
from torch import nn

from ofcl import Memory
from ofcl.errors import OfclError
from ofcl.memory.policy import Policy
from ofcl.methods.federated.gradient_norms import gradient_norms
from ofcl.methods.federated.refed_importance import Importance
from tests.methods.federated.small import Plain


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def test_the_norm_of_a_sample_s_gradient():
    model = Plain(2, 2)
    weights = dict(model.named_parameters())
    x, y = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([0, 1])
    norms, mean = gradient_norms(model, weights, x, y)
    # p − y is (∓½, ±½), and is multiplied with (x, 1)
    assert norms.tolist() == pytest.approx([math.sqrt(0.5 * 26), math.sqrt(0.5)])
    assert mean["head.weight"].flatten().tolist() == pytest.approx([-0.75, -1.0, 0.75, 1.0])
    assert mean["head.bias"].tolist() == pytest.approx([0, 0])


class Twice(nn.Module):
    """A network that uses a layer twice, and changes its output in place."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(self.layer(x.flatten(1)[:, :4]).relu_())


NETWORKS = {
    "layers": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, stride=2, bias=False), nn.BatchNorm2d(2),
        nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8, 4)),
    "another kind": lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(16), nn.Linear(16, 4)),
    "used twice": Twice,
}  # fmt: skip


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_norms_of_many_samples_are_those_of_each_alone(kind):
    torch.manual_seed(0)
    model = NETWORKS[kind]().eval()
    if kind == "layers":
        model[1].running_mean.fill_(0.3)
    x, y, weights = torch.randn(35, 1, 4, 4), torch.arange(35) % 4, dict(model.named_parameters())
    norms, mean = gradient_norms(model, weights, x, y)
    for row in (0, 17, 34):
        loss = nn.functional.cross_entropy(model(x[row : row + 1]), y[row : row + 1])
        gradient = torch.autograd.grad(loss, weights.values())
        expected = torch.cat([part.flatten() for part in gradient]).norm()
        assert norms[row].item() == pytest.approx(expected.item(), rel=1e-5)
    loss = nn.functional.cross_entropy(model(x), y)
    for name, expected in zip(weights, torch.autograd.grad(loss, weights.values()), strict=True):
        assert torch.allclose(mean[name], expected, atol=1e-6)


def by_hand():
    """The importance of x = 1 in class 0 and in class 1, with η = ½, λ = ½ and three steps.

    All four weights have the same size u in every step, and the difference of the logits is 4u.
    """
    first = 1 - sigmoid(1.0)  # 1 − p after the first step, to u = ¼
    u = 0.25 + 0.5 * (first - 0.5 * 0.25)  # the gradient is −(1 − p), the pull 1/2 · u
    second = 1 - sigmoid(4 * u)
    own = 1 + 1 / 2 * 2 * first + 1 / 3 * 2 * second
    other = 1 + 1 / 2 * 2 * (1 - first) + 1 / 3 * 2 * (1 - second)
    return own, other


def test_importance_is_added_up_along_the_personalised_model_s_way():
    importance = Importance(Plain(1, 2), lr=0.5, steps=3, share=0.5)
    own, other = by_hand()
    x = torch.ones(1, 1)
    assert importance.importance(x, torch.tensor([0])).item() == pytest.approx(own, rel=1e-5)
    # A sample that comes before the next round is measured by the same models.
    assert importance(x, torch.tensor([1])).item() == pytest.approx(-other, rel=1e-5)
    assert importance(x, torch.tensor([0])).item() == pytest.approx(-own, rel=1e-5)


def test_a_round_begins_a_new_way_from_the_model_that_came():
    model = Plain(1, 2)
    importance = Importance(model, lr=0.5, steps=2)
    importance(torch.ones(1, 1), torch.tensor([0]))
    model.head.bias.data[:] = torch.tensor([9.0, -9.0])
    importance.round_passed("before-round")
    assert importance(torch.ones(1, 1), torch.tensor([1])).item() < -1.4  # still by the old way
    importance.round_passed("after-round")
    # The new model is sure of class 0: nothing is to be learned.
    assert importance(torch.ones(1, 1), torch.tensor([0])).item() == pytest.approx(0, abs=1e-6)


def test_a_small_share_keeps_the_model_at_the_global_one():
    # λ = 1/3: the pull is (1 − λ) / 2λ = 1, and with η = 1 every step starts at w again.
    importance = Importance(Plain(1, 2), lr=1.0, steps=3, share=1 / 3)
    importance(torch.ones(1, 1), torch.tensor([0]))
    (_, one, two) = importance._way
    p = sigmoid(4 * one["head.bias"][0].item())
    assert one["head.bias"].tolist() == pytest.approx([0.5, -0.5])
    assert two["head.bias"].tolist() == pytest.approx([1 - p, p - 1], rel=1e-5)


def test_of_each_class_the_most_important_stay_and_a_saved_state_goes_on():
    def make():
        key = Importance(Plain(2, 2), lr=0.1, steps=2)
        return Memory(
            4, Policy(key, rekey="every-round", scorer=key, labelled=True), torch.Generator()
        )

    memory, x = make(), torch.tensor([[1.0, 0], [2, 0], [3, 0], [0, 5], [0, 6], [0, 7]])
    memory.update(x, torch.tensor([0, 0, 0, 1, 1, 1]), task=0)
    # All have the same p at first, so that the longest have the largest gradients.
    assert sorted(memory.x.norm(dim=1).tolist()) == [2, 3, 6, 7]
    other = make()
    other.load_state(memory.state())
    for each in (memory, other):
        each.grow(3, seed=0)
        each.update(torch.tensor([[4.0, 0], [0, 1]]), torch.tensor([0, 1]), task=0)
    assert torch.equal(memory.x, other.x)
    assert sorted(memory.x.norm(dim=1).tolist()) == [3, 4, 6, 7]


def test_no_distances():
    with pytest.raises(OfclError, match="by importance"):
        Importance(Plain(1, 2), lr=1.0).distances_between(torch.ones(1, 1))
