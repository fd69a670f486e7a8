"""Clients that take their gradient steps together, and what surrounds a step on a CPU."""

import pytest
import torch

from ofcl import Run, make_settings
from ofcl.engines import local
from ofcl.events import Learned
from ofcl.methods.stacked import Stack
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
        {"method": "loss", "keep": "weighted", "label_noise": 0.2, "replay_draw": "key"},
        {"method": "bi", "keep": "diverse", "replay_draw": "class"},
        {"method": "er", "loss": "ace", "replay": "all"},
        {"method": "er", "optimizer": "sgd", "lr": 0.05},
        {"method": "cbr", "replay": "all", "replay_ratio": 2, "contrast": 0.5},
        {"method": "cbr", "replay": "all", "augment": "noise", "augmented": "all", "contrast": 0.5},
        {"method": "cbr", "replay": "all", "distil": 1.0},
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
