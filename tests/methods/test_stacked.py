"""Clients that take their gradient steps together, and what surrounds a step on a CPU."""

import subprocess
import sys

import pytest
import torch

from ofcl import Run, make_settings
from ofcl.compute.optimizers import SGD, Adam, descend, step_together
from ofcl.engines import local
from ofcl.events import Learned
from ofcl.methods.learner import measured
from ofcl.methods.stacked import Stack
from ofcl.models.mlp import MLP, StackedLinear
from tests.conftest import TINY


def outcome(values, data=None, streams=()):
    run = Run(make_settings(values), data, streams=streams)
    losses = torch.tensor([event.loss for event in run if isinstance(event, Learned)])
    return losses, [c.model.state_dict() for c in run.clients]


def assert_alike(first, second):
    assert torch.allclose(first[0], second[0], rtol=1e-4)
    for ours, theirs in zip(first[1], second[1], strict=True):
        assert all(torch.allclose(v, theirs[name], atol=1e-5) for name, v in ours.items())


@pytest.mark.parametrize(
    "changed",
    [
        {"method": "none"},
        {"method": "er"},
        {"method": "bi", "rescore": "at-risk"},
        {"method": "er", "loss": "ace", "replay": "all"},
        {"method": "er", "optimizer": "sgd", "lr": 0.05},
        {"method": "er", "test_first": True},
        {"method": "er", "batch_size": 7},  # with a rest at the end of a task
        {"method": "er", "clients": 3, "split": "dirichlet"},  # of different lengths
        {"method": "er", "stagger": 4},
        {"method": "bi", "aggregation": "fedprox"},  # is not stacked
    ],
)
def test_stacked_clients_learn_like_single_ones(monkeypatch, blobs, changed):
    values = {**TINY, **changed}
    stacked = outcome(values, blobs)
    monkeypatch.setattr(local, "stackable", lambda learner: False)
    assert_alike(stacked, outcome(values, blobs))


def test_small_models_are_stacked_and_groups_are_not_too_large(monkeypatch, blobs):
    used = []
    learn = Stack.learn
    monkeypatch.setattr(Stack, "learn", lambda self, *given: used.append(1) or learn(self, *given))
    run = Run(make_settings({**TINY, "clients": 20, "batch_size": 2, "method": "er"}), blobs)
    for _ in run:
        pass
    assert [len(group.clients) for group in run.engine.groups] == [16, 4]
    assert used


def test_clients_that_are_out_of_step_are_stacked_too(monkeypatch, blobs):
    sizes = []
    take_steps = Stack.take_steps

    def counted(self, taught):
        sizes.append(len(taught))
        return take_steps(self, taught)

    monkeypatch.setattr(Stack, "take_steps", counted)
    values = {**TINY, "clients": 4, "method": "er", "split": "dirichlet"}
    for _ in Run(make_settings(values), blobs):
        pass
    assert {2, 3} <= set(sizes)


def test_who_leaves_a_stack_takes_its_weights_along(blobs):
    """Not those of all that it was stacked with."""
    values = {**TINY, "clients": 4, "method": "er", "split": "dirichlet"}
    run = Run(make_settings(values), blobs)
    for _ in run:
        pass
    held = [p.untyped_storage() for c in run.clients for p in c.model.parameters()]
    sizes = {storage.data_ptr(): storage.nbytes() for storage in held}
    used = [p.nbytes for c in run.clients for p in c.model.parameters()]
    assert sum(sizes.values()) == sum(used)


def test_heads_that_grow_at_different_times(monkeypatch):
    def readings(seed):
        draw = torch.Generator().manual_seed(seed)
        for n in range(120):
            label = n // (30 + 10 * seed)
            yield torch.randn(4, generator=draw) + 3 * label, f"class {label}"

    settings = {"method": "er", "memory": 30, "burn_in": 2, "hidden": 8, "clients": 2}
    stacked = outcome(settings, streams=[readings(0), readings(1)])
    monkeypatch.setattr(local, "stackable", lambda learner: False)
    assert_alike(stacked, outcome(settings, streams=[readings(0), readings(1)]))


def test_the_stacked_layer_and_its_gradients():
    x, weight, bias = torch.randn(3, 5, 4), torch.randn(3, 2, 4), torch.randn(3, 2)
    given = [tensor.double().requires_grad_() for tensor in (x, weight, bias)]
    assert torch.autograd.gradcheck(StackedLinear.apply, given)
    models = [MLP(4, 6, 2) for _ in range(3)]
    stacked = {
        name: torch.stack([model.get_parameter(name) for model in models])
        for name, _ in models[0].named_parameters()
    }
    logits = MLP.stacked(stacked, x)
    for k, model in enumerate(models):
        assert torch.allclose(logits[k], model(x[k]), atol=1e-6)
    gradient = torch.autograd.grad(logits.sum(), stacked["hidden.weight"])[0]
    assert gradient.is_contiguous()  # a fused optimiser wants it so


@pytest.mark.parametrize("each", [SGD, torch.optim.SGD])
def test_gradients_do_not_stay_with_those_that_wait(each):
    models = [MLP(4, 6, 2) for _ in range(2)]
    for model in models:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
    step_together([each(model.parameters(), lr=0.1) for model in models])
    assert all(p.grad is None for model in models for p in model.parameters())


def test_what_is_not_finite_is_told_of_the_client_that_has_it():
    parameters = [torch.ones(3) for _ in range(6)]  # two for each of three clients
    parameters[3][1] = float("inf")
    told = measured(torch.zeros(3, 5, 2), torch.zeros(3, 5).long(), torch.ones(3, 4), parameters)
    assert told[:, 2].tolist() == [1, 0, 1]


def test_nothing_imports_the_compiler_of_pytorch():
    """It would take a second of every command."""
    code = (
        "import sys; from ofcl import Run, make_settings\n"
        "for optimizer in ('sgd', 'adam'):\n"
        "    values = {'dataset': 'digits', 'model': 'mlp', 'optimizer': optimizer}\n"
        "    run = Run(make_settings(values)); next(iter(run)); run.engine.state()\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "apart"),
    [(SGD, torch.optim.SGD, 0.0), (Adam, torch.optim.Adam, 1e-6)],
)
def test_our_optimisers_are_those_of_pytorch(ours, theirs, apart):
    models = [MLP(4, 6, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [
        make(model.parameters(), lr=0.01)
        for make, model in zip((ours, theirs), models, strict=True)
    ]
    for seed in range(20):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
        for model, optimizer in zip(models, optimizers, strict=True):
            descend(optimizer, model(x).square().mean(), list(model.parameters()))
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert (one - other).abs().max() <= apart
    first, second = (optimizer.state_dict() for optimizer in optimizers)
    assert first["state"].keys() == second["state"].keys()
    for place, gathered in first["state"].items():
        assert gathered.keys() == second["state"][place].keys()
        if "step" in gathered:
            assert gathered["step"] == second["state"][place]["step"] == 20
