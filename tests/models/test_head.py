"""A head that grows: old outputs do not change, all parties give a new one the same start."""

import copy

import pytest
import torch

from ofcl.models import MODELS, ModelSize
from ofcl.models.head import grow_head, grow_optimizer, grown, new_outputs, outputs
from ofcl.server import Server
from ofcl.update import Update, travelling

SHAPES = {"mlp": (6,), "slim-resnet18": (1, 8, 8)}


def build(name, classes=3):
    return MODELS[name].build(ModelSize(SHAPES[name], classes, width=2, hidden=5)).eval()


@pytest.mark.parametrize("name", SHAPES)
def test_old_outputs_are_unchanged(name):
    model, x = build(name), torch.randn(4, *SHAPES[name])
    before, rows = model(x), model.head.weight.detach().clone()
    grow_head(model, 7, seed=1)
    assert outputs(model) == 7
    assert torch.equal(model.head.weight[:3], rows)
    # A wider product may round differently in the last place.
    assert torch.allclose(model(x)[:, :3], before, atol=1e-6)
    grow_head(model, 5, seed=1)  # never shrinks
    assert outputs(model) == 7


def test_how_it_grows_does_not_matter():
    at_once, by_and_by = build("mlp"), None
    by_and_by = copy.deepcopy(at_once)
    grow_head(at_once, 6, seed=4)
    for classes in (4, 6):
        grow_head(by_and_by, classes, seed=4)
    assert torch.equal(at_once.head.weight, by_and_by.head.weight)
    assert torch.equal(at_once.head.bias, by_and_by.head.bias)


def test_new_outputs_start_like_a_linear_layer():
    weight, bias = new_outputs(seed=0, first=3, last=203, features=25)
    assert weight.shape == (200, 25)
    assert weight.abs().max() <= 0.2
    assert bias.abs().max() <= 0.2
    assert weight.std().item() == pytest.approx(0.2 / 3**0.5, rel=0.05)
    other, _ = new_outputs(seed=1, first=3, last=203, features=25)
    assert not torch.equal(weight, other)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_an_optimiser_goes_on_with_what_it_has_gathered(kind):
    """Growing by outputs that get no gradient changes nothing for the others."""
    torch.manual_seed(0)
    plain = build("mlp", classes=3).train()
    growing = copy.deepcopy(plain)
    optimizers = [kind(m.parameters(), lr=0.1) for m in (plain, growing)]
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    for step in range(6):
        if step == 3:
            grow_optimizer(optimizers[1], grow_head(growing, 5, seed=0))
        for model, optimizer in zip((plain, growing), optimizers, strict=True):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x)[:, :3], y).backward()
            optimizer.step()
    assert torch.allclose(plain.head.weight, growing.head.weight[:3], atol=1e-6)
    assert torch.allclose(plain.hidden.weight, growing.hidden.weight, atol=1e-6)
    assert len(optimizers[1].param_groups[0]["params"]) == 4


def test_the_server_averages_heads_of_different_width():
    small, large = build("mlp", 3), build("mlp", 3)
    grow_head(large, 5, seed=9)
    start = travelling(build("mlp", 3), statistics=True)
    server = Server(start, previous=0.0, seed=9)
    updates = [
        Update(k, travelling(m, statistics=True), 1, {}) for k, m in enumerate((small, large))
    ]
    model = server.aggregate(updates)
    assert model["head.weight"].shape == (5, 5)
    expected = (small.head.weight + large.head.weight[:3]) / 2
    assert torch.allclose(model["head.weight"][:3], expected)
    # A party that does not know the class yet counts with what every party starts it from.
    assert torch.allclose(model["head.weight"][3:], large.head.weight[3:])


def test_tensors_without_a_head_are_left_alone():
    tensors = {"w": torch.ones(2)}
    assert grown(tensors, 5, seed=0) is tensors
