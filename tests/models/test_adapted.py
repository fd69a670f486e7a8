"""A network of another library learns without a change: its last layer becomes the head."""

import copy

import pytest
import torch
from torch import nn

from ofcl import OfclError
from ofcl.models import ModelSize, find_model
from ofcl.models.adapted import Adapted, adapt, fits
from ofcl.models.mlp import MLP
from ofcl.own_parts.handed_over import hand_over
from ofcl.testing import check_model
from ofcl.update import frozen, travelling


class TorchStyle(nn.Module):
    """As the networks of torchvision are: features, pooling, a last layer `fc`."""

    def __init__(self, num_classes=1000, dropout=0.0):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.dropout, self.fc = nn.Dropout(dropout), nn.Linear(4, num_classes)

    def forward(self, x):
        return self.fc(self.dropout(self.features(x).mean((2, 3))))


def small(part, classes=3):
    return find_model(hand_over("model", part)).build(ModelSize((1, 8, 8), classes))


@pytest.mark.parametrize(
    "part",
    [
        TorchStyle(3),
        TorchStyle,
        lambda size: TorchStyle(size.classes),
        lambda: TorchStyle(),
        lambda **how: TorchStyle(**how),
    ],
    ids=["object", "class", "function of sizes", "function of nothing", "function of anything"],
)
def test_whatever_was_given_becomes_a_model_with_a_head(part):
    model = small(part)
    assert isinstance(model, Adapted)
    assert (model.head.in_features, model.head.out_features) == (4, 3)
    x = torch.randn(5, 1, 8, 8)
    model.eval()
    assert torch.equal(model(x), model.head(model.features(x)))


def test_an_object_keeps_its_weights_and_is_not_changed():
    given = TorchStyle(3).eval()
    before, x = copy.deepcopy(given.state_dict()), torch.randn(5, 1, 8, 8)
    assert torch.equal(small(given).eval()(x), given(x))
    assert all(torch.equal(value, before[name]) for name, value in given.state_dict().items())


def test_another_number_of_classes_gets_a_new_head():
    model = small(TorchStyle(1000))
    assert model(torch.randn(2, 1, 8, 8)).shape == (2, 3)


def test_an_output_that_is_not_of_a_linear_layer_counts_as_features():
    model = small(nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh()))
    assert (model.head.in_features, model.head.out_features) == (6, 3)


def test_a_lone_linear_layer_is_all_head():
    model = adapt(nn.Linear(5, 3), (5,), 3, "linear")
    assert [name for name, _ in model.named_parameters()] == ["head.weight", "head.bias"]


def test_a_network_with_features_and_a_head_stays_as_it_is():
    network = MLP(64, 5, 3)
    assert fits(network)
    assert adapt(network, (64,), 3, "mlp") is network


def test_it_keeps_the_contract_of_models():
    check_model(find_model(hand_over("model", TorchStyle)).build)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (nn.Linear(7, 3), "cannot take samples of the shape 1 × 8 × 8"),
        (nn.Conv2d(1, 3, 3), r"must return logits, one row for each sample.*\(2, 3, 6, 6\)"),
        (lambda: 5, "must be an nn.Module, or make one; it made a int"),
        (7, "must be an nn.Module or a function that makes one"),
    ],
    ids=["other samples", "feature maps", "no module", "no function"],
)
def test_what_cannot_be_a_model_is_said(part, message):
    with pytest.raises(OfclError, match=message):
        small(part)


def test_dropout_draws_from_a_generator_that_is_saved_with_the_model():
    model = small(lambda: TorchStyle(3, dropout=0.5)).train()
    assert model.draws
    x, before = torch.randn(9, 1, 8, 8), torch.default_generator.get_state()
    saved = copy.deepcopy(model.state_dict())
    first, second = model(x), model(x)
    assert not torch.equal(first, second)
    assert torch.equal(torch.default_generator.get_state(), before)
    model.load_state_dict(saved)
    assert torch.equal(model(x), first)
    model.seed(8)
    assert not torch.equal(model(x), second)
    assert not small(TorchStyle).draws


def test_what_is_frozen_stays_and_does_not_travel():
    given = TorchStyle(3)
    given.features.requires_grad_(False)
    model = small(given).train()
    assert [*travelling(model, statistics=True)] == ["head.weight", "head.bias"]
    assert {name.rpartition(".")[2] for name in frozen(model)} == {
        "weight", "bias", "running_mean", "running_var",
    }  # fmt: skip
    mean = model.body.features[1].running_mean.clone()
    model(torch.randn(5, 1, 8, 8) + 3)
    assert torch.equal(model.body.features[1].running_mean, mean)
