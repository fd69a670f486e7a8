"""What holds for every method, score, aggregation and protocol alike."""

import itertools
import math

import pytest
import torch

from ofcl import Run, make_settings
from ofcl.events import Evaluated, Learned, Round
from ofcl.methods import METHODS
from tests.conftest import TINY, TINY_IMAGES

REMEMBERING = [name for name, method in METHODS.items() if method.generative is None]
KEEPS = [(m, k) for m in REMEMBERING for k in (("bottom",) if m in ("none", "er", "cbr")
                                           else ("bottom", "top"))]  # fmt: skip
COMBINATIONS = [
    (*method, aggregation, protocol)
    for method, aggregation, protocol in itertools.product(
        KEEPS, ("fedavg", "weighted", "fedprox"), ("sound", "published")
    )
] + [("er", "bottom", aggregation, "sound") for aggregation in ("trimmed-mean", "median")]


def start(data, values, **more):
    return Run(make_settings({**values, **more}), data)


def check(run):
    """Runs to the end and checks what must hold of any run; gives its result."""
    rng = torch.get_rng_state()
    for event in run:
        if isinstance(event, Learned):
            assert math.isfinite(event.loss)
            assert 0 <= event.correct <= event.samples
        if isinstance(event, Round):
            assert len(event.clients) >= 2
            assert event.bytes_sent > event.bytes_received > 0
    assert torch.equal(torch.get_rng_state(), rng)  # the global generator is nobody's
    settings = run.settings
    ends = [(e.client, e.task) for e in run.events if isinstance(e, Evaluated)]
    assert sorted(ends) == list(itertools.product(range(settings.clients), range(settings.tasks)))
    assert sum(e.batches for e in run.events if isinstance(e, Learned)) == run.batches
    result = run.result()
    assert 0 <= result.A <= 100
    assert result.F is not None
    assert result.rounds > 0
    for client in run.clients:
        memory = client.learner.memory
        assert (memory is None) == (METHODS[settings.method].policy is None)
        if memory is not None:
            assert len(memory) <= settings.memory
            assert memory.samples.id.unique().numel() == len(memory)
    return result


@pytest.mark.parametrize(("method", "keep", "aggregation", "protocol"), COMBINATIONS)
def test_vectors(blobs, method, keep, aggregation, protocol):
    values = {"method": method, "keep": keep, "aggregation": aggregation, "protocol": protocol}
    check(start(blobs, values, **TINY))


@pytest.mark.parametrize("method", REMEMBERING)
@pytest.mark.parametrize("protocol", ["sound", "published"])
def test_images(images, method, protocol):
    check(start(images, {"method": method, "protocol": protocol}, **TINY_IMAGES))


@pytest.mark.parametrize("method", sorted(METHODS.keys() - set(REMEMBERING)))
@pytest.mark.parametrize("task_order", ["overlap", "non-overlap"])
def test_images_that_are_made(images, method, task_order):
    few = {"synthetic": 8, "generator_steps": 2, "consolidation": 1, "task_order": task_order}
    check(start(images, {"method": method, **few}, **TINY_IMAGES))


@pytest.mark.parametrize(
    "values",
    [
        {"task_order": "non-overlap"},
        {"class_order": "size"},
        {"split": "dirichlet", "alpha": 1.0},
        {"participation": 0.5, "clients": 4, "batch_size": 2},
        {"dropout": 0.3, "clients": 4, "batch_size": 2},
        {"loss": "ace", "replay": "all"},
        {"scoring_model": "current", "rescore": "every-batch"},
        {"scoring_model": "current", "rescore": "every-batch", "scoring_mode": "train"},
        {"batchnorm": "local"},
        {"memory_rule": "released", "rescore": "every-round"},
        {"optimizer": "sgd", "lr": 0.05},
        {"steps": 1, "augment": False},
        {"clients": 3, "batch_size": 3},  # streams of different lengths, a last batch of one
        {"burn_in": 0, "q": 1},
        {"blurry": 0.4},
        {"imbalance": 4.0, "batch_size": 3},
        {"stagger": 5, "batch_size": 3},
    ],
    ids=lambda values: ",".join(f"{k}={v}" for k, v in values.items()),
)
@pytest.mark.parametrize("kind", ["vector", "image"])
def test_settings_one_by_one(blobs, images, kind, values):
    data, tiny = (blobs, TINY) if kind == "vector" else (images, TINY_IMAGES)
    check(start(data, {"method": "bi", **tiny}, **values))


def test_the_same_seed_gives_the_same_run_and_another_another(blobs):
    results = [check(start(blobs, {"method": "bi", **TINY}, seed=seed)) for seed in (0, 0, 1)]
    first, again, other = ({**r.to_json(), "seconds": 0} for r in results)
    assert first == again
    assert first["anytime"] != other["anytime"]


def test_memory_helps_on_data_that_can_be_learned(blobs):
    tiny = {**TINY, "memory": 30, "optimizer": "sgd", "lr": 0.1, "steps": 3}
    results = {m: check(start(blobs, {"method": m, **tiny})) for m in ("none", "er", "bi")}
    assert results["er"].A > results["none"].A + 10
    assert results["bi"].A > results["none"].A + 10
    assert results["none"].F > results["bi"].F + 10


def test_one_client_alone_learns_without_rounds(blobs):
    run = start(blobs, {"method": "er", **TINY}, clients=1)
    assert not [event for event in run if isinstance(event, Round)]
    assert run.result().A > 0
