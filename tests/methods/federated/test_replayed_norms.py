"""Norms of gradients from a graph: the same numbers, seen on a CPU by the stand-in for graphs."""

import copy

import pytest
import torch
from torch import nn

import ofcl
from ofcl.methods.federated import gradient_norms as plain
from ofcl.methods.federated import replayed_norms
from ofcl.methods.federated.refed_importance import Importance
from ofcl.methods.federated.replayed_norms import ReplayedNorms, most_at_once
from ofcl.models import MLP, ConvNet, SlimResNet18
from ofcl.testing import TINY, TINY_IMAGES, make_blobs, make_images
from tests.methods.federated.test_refed_importance import NETWORKS
from tests.support.capturable import watch_captures

IMAGES = {
    "slim-resnet18": lambda: SlimResNet18(1, 4, width=3),
    "convnet": lambda: ConvNet(1, 4, width=3),
}


@pytest.fixture
def compared(monkeypatch):
    """Calls that were compared with a captured one; patches are gathered as on a GPU."""
    monkeypatch.setattr(plain, "_unfolded", plain.gathered)
    monkeypatch.setattr(replayed_norms, "MOST", 32)
    return watch_captures(monkeypatch)


def made(kind):
    """A network whose statistics are not those that it starts with, and 75 samples for it."""
    torch.manual_seed(0)
    model = (IMAGES.get(kind) or NETWORKS[kind])()
    side = 8 if kind in IMAGES else 4
    x, y = torch.randn(75, 1, side, side), torch.arange(75) % 4
    model(x)
    return model.eval(), dict(model.named_parameters()), x, y


@pytest.mark.parametrize("kind", [*IMAGES, "layers"])
@pytest.mark.parametrize("n", [1, 16, 17, 75])
def test_replayed_norms_are_the_plain_ones_and_what_fills_a_lot_does_not_count(compared, kind, n):
    model, weights, x, y = made(kind)
    replayed = ReplayedNorms(model)
    expected, mean = plain.gradient_norms(model, weights, x[:n], y[:n])
    for _ in range(3):
        norms, gradient = replayed(weights, x[:n], y[:n])
        assert torch.allclose(norms, expected, rtol=1e-4)
        for name, value in mean.items():
            assert torch.allclose(gradient[name], value, rtol=1e-4, atol=1e-6), name
    assert compared


def test_a_lot_is_as_large_as_the_layers_numbers_allow(monkeypatch):
    model, _, x, _ = made("layers")
    held = 16 + 8 + 8 + 8 + 8 + 4  # what convolution, normalisation and head take and give
    assert most_at_once(model, x) == 128
    for room, most in ((held * 15, 8), (held * 16, 16), (held, 1), (1, 1)):
        monkeypatch.setattr(replayed_norms, "HELD", room)
        assert most_at_once(model, x) == most


class WithReLU(nn.BatchNorm2d):
    """A layer of a derived class, of which PyTorch's equations do not hold."""

    def forward(self, x):
        return super().forward(x).relu()


NETWORKS_ONE_BY_ONE = {
    **{kind: NETWORKS[kind] for kind in ("another kind", "used twice")},
    "derived": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3, stride=2), WithReLU(2), nn.Flatten(), nn.Linear(2, 4)),
    "frozen bias": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3).requires_grad_(False), nn.Conv2d(2, 2, 2), nn.Flatten(),
        nn.Linear(2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("kind", NETWORKS_ONE_BY_ONE)
def test_other_networks_are_taken_sample_by_sample(compared, kind):
    torch.manual_seed(0)
    model = NETWORKS_ONE_BY_ONE[kind]().eval()
    if kind == "frozen bias":
        model[1].bias.requires_grad_(False)
    weights = {name: p for name, p in model.named_parameters() if p.requires_grad}
    x, y = torch.randn(5, 1, 4, 4), torch.arange(5) % 4
    replayed = ReplayedNorms(model)
    for _ in range(3):
        norms, _ = replayed(weights, x, y)
    for row, norm in enumerate(norms):
        loss = nn.functional.cross_entropy(model(x[row : row + 1]), y[row : row + 1])
        gradient = torch.autograd.grad(loss, weights.values())
        assert norm.item() == pytest.approx(
            torch.cat([part.flatten() for part in gradient]).norm().item(), rel=1e-5
        )
    assert not compared


def test_a_network_that_may_not_be_captured_takes_the_plain_path(compared):
    model, weights, x, y = made("layers")
    replayed = ReplayedNorms(model, capture=False)
    expected = plain.gradient_norms(model, weights, x, y)[0]
    for _ in range(3):
        assert torch.equal(replayed(weights, x, y)[0], expected)
    assert not compared


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv2d(3, 2, 3, padding=1),
        nn.Conv2d(3, 2, 1, stride=2),
        nn.Conv2d(3, 2, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 3)),
    ],
    ids=["plain", "point", "mixed"],
)
def test_patches_are_gathered_as_they_are_unfolded(convolution, last):
    a = torch.randn(2, 3, 9, 8)
    if last:
        a = a.to(memory_format=torch.channels_last)
    unfolded = plain._unfolded(convolution, a)
    gathered = plain.gathered(convolution, a)
    by_channel = gathered.unflatten(2, (-1, 3)).transpose(2, 3).flatten(2)
    assert torch.equal(by_channel, unfolded)


def test_importance_goes_on_after_rounds_new_classes_and_a_saved_state(compared):
    torch.manual_seed(0)
    model, x = MLP(6, 5, 2), torch.randn(40, 6)
    replayed = Importance(model, lr=0.3, steps=3)
    oracle = Importance(model, lr=0.3, steps=3, capture=False)

    def same(n):
        y = torch.arange(n) % len(model.head.bias)
        for _ in range(2):
            ours, theirs = (each.importance(x[:n], y) for each in (replayed, oracle))
            assert torch.allclose(ours, theirs, rtol=1e-4)

    for n in (40, 5, 9):
        same(n)
    for p in model.parameters():
        p.data.mul_(1.5)
    ofcl.models.head.grow_head(model, 4, seed=0)
    for each in (replayed, oracle):
        each.grow(4, seed=0)
    same(12)
    for each in (replayed, oracle):
        each.round_passed("after-round")
    same(40)
    saved = copy.deepcopy(oracle.state())  # as an earlier version saved it
    for each in (replayed, oracle):
        each.round_passed("after-round")
        same(40)
        each.load_state(saved)
    same(7)
    assert len(compared) > 20


@pytest.mark.parametrize("kind", ["vector", "image"])
def test_runs_remember_and_learn_the_same(monkeypatch, kind):
    data, tiny = (make_blobs(), TINY) if kind == "vector" else (make_images(), TINY_IMAGES)
    values = {**tiny, "method": "refed", "lr": 1e-3}

    def remembered():
        run = ofcl.Run(ofcl.make_settings(values), data)
        losses = [event.loss for event in run if hasattr(event, "loss")]
        memories = [client.learner.memory for client in run.clients]
        graphs = [len(m.policy.scorer._gradients._captured._recordings) for m in memories]
        return losses, [m.samples.id.tolist() for m in memories], graphs

    expected = remembered()
    monkeypatch.setattr(plain, "_unfolded", plain.gathered)
    watch_captures(monkeypatch)
    losses, samples, graphs = remembered()
    assert losses == pytest.approx(expected[0], rel=1e-3)
    assert samples == expected[1]
    assert all(graphs)
    assert not any(expected[2])
