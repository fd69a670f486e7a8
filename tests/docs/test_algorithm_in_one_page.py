"""The package computes what `examples/algorithm_in_one_page.py` does."""

import functools
import importlib.util
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import ofcl
from ofcl.storage.checkpoint import load_checkpoint

PAGE = Path(__file__).parent.parent.parent / "examples" / "algorithm_in_one_page.py"
SEEDS = [1, 5]  # 1 is the page's own


def load_page():
    """The page as a new module, so that a test can change its constants."""
    spec = importlib.util.spec_from_file_location("algorithm_in_one_page", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def page():
    return load_page()


def settings_of(page, shares):
    """The page's constants as settings of the package."""
    lengths = [math.ceil(len(rows) / page.BATCH_SIZE) for share in shares for rows in share.train]
    return {
        "protocol": "sound", "method": "bi", "model": "mlp", "device": "cpu", "seed": page.SEED,
        "clients": page.CLIENTS, "tasks": page.TASKS,
        "batch_size": page.BATCH_SIZE, "limit": min(lengths),
        "hidden": page.HIDDEN, "optimizer": "sgd", "lr": page.LEARNING_RATE, "steps": page.STEPS,
        "memory": page.MEMORY, "scoring_model": "current", "rescore": "every-batch",
        "noise_copies": page.COPIES, "noise_std": page.NOISE,
        "burn_in": page.BURN_IN, "q": page.Q, "previous": page.PREVIOUS,
    }  # fmt: skip


def run_package(page, out, **changed):
    """The page's run by the package, from the files that it leaves.

    Returns the global model, of each client what its memory holds (x, y, task), A and F.
    """
    x_train, y_train, x_test, y_test = page.load_digits()
    names = tuple(str(c) for c in range(10))
    data = ofcl.Dataset("digits", "vector", x_train, y_train, x_test, y_test, names)
    shares = ofcl.build_scenario(y_train.numpy(), y_test.numpy(), len(names), seed=page.SEED,
                                 clients=page.CLIENTS, tasks=page.TASKS)  # fmt: skip
    result = ofcl.run(data, out=out, **{**settings_of(page, shares), **changed})
    saved = load_checkpoint(out / "checkpoint", pytest.fail).state["engine"]["clients"]
    memories = [by_place(client["learner"]["memory"]) for client in saved]
    return load_file(out / "model.safetensors"), memories, result.A, result.F


def by_place(memory):
    """What a saved memory holds (x, y, task), in the order of its places."""
    order, samples = memory["places"].argsort(), memory["samples"]
    return memory["x"][order], samples["y"][order], samples["task"][order]


@functools.cache
def run_page(seed):
    """The page's run with another seed, in the form of `run_package`."""
    page = load_page()
    page.SEED = seed
    model, clients, a, f = page.federate(*page.load_digits())
    memories = [(client.memory_x, client.memory_y, client.memory_task) for client in clients]
    return model, memories, a.item(), f.item()


def largest_difference(model, other):
    assert model.keys() == other.keys()
    return max((model[name] - other[name]).abs().max().item() for name in model)


# Clients that learn one by one make the same calls as the page, so their numbers are the same to
# the last bit. On a CPU, small networks take their steps together, and that may round otherwise.
# Errors of 1e-7 in all initial weights move these runs by less than 1e-6, those of 1e-6 by less
# than 1e-3 (where a hidden unit is switched on or off); the memories stay the same.
TOLERANCES = {"alone": 0.0, "together": 1e-3}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("learning", TOLERANCES)
def test_the_package_gives_the_model_and_the_memories_of_the_page(page, tmp_path, seed, learning):
    page.SEED = seed
    # FedProx with a weight of zero is FedAvg, but its clients do not take their steps together.
    alone = {"aggregation": "fedprox", "mu": 0.0} if learning == "alone" else {}
    model, memories, a, f = run_package(page, tmp_path / "run", **alone)
    expected_model, expected_memories, expected_a, expected_f = run_page(seed)
    assert largest_difference(model, expected_model) <= TOLERANCES[learning]
    for memory, expected in zip(memories, expected_memories, strict=True):
        assert all(map(torch.equal, memory, expected))
    assert (a, f) == pytest.approx((expected_a, expected_f), abs=1e-9)


@pytest.mark.parametrize(
    "changed",
    [
        {"keep": "top"},
        {"scoring_model": "after-round"},
        {"noise_std": 0.4},
        {"replay": "all"},
        {"first_round": "at-burn-in"},
        {"previous": 0.499},
        {"previous_start": "initial"},
    ],
    ids=str,
)
def test_another_setting_gives_another_model(page, tmp_path, changed):
    """So the tolerance above is small enough to see that one side does something else."""
    model, *_ = run_package(page, tmp_path / "run", **changed)
    assert largest_difference(model, run_page(page.SEED)[0]) > 2 * TOLERANCES["together"]
