"""Every member of our own families keeps the contracts that `ofcl.testing` ships."""

import functools
import itertools
import json
import os

import numpy as np
import pytest
import torch

from ofcl import (
    ArrayStream,
    JsonLines,
    Memory,
    Policy,
    Reading,
    Run,
    WatchedFolder,
    make_settings,
)
from ofcl.aggregation import (
    fedavg,
    geometric_median,
    krum,
    median,
    trimmed_mean,
    weighted_fedavg,
)
from ofcl.data.live import watched_folder
from ofcl.data.live.form import Form, Pattern
from ofcl.data.live.iterator_feed import IteratorFeed
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.vocabulary import Vocabulary
from ofcl.events import Round
from ofcl.memory.policy import random_key
from ofcl.methods import METHODS
from ofcl.methods.augmentations import FlipAndRotate
from ofcl.models import MODELS
from ofcl.seeds import generator
from ofcl.testing import (
    TINY,
    TINY_IMAGES,
    check_aggregation,
    check_change,
    check_feed,
    check_memory,
    check_method,
    check_model,
    check_perturbation,
    check_policy,
    check_run,
    check_score,
    check_stream,
    make_blobs,
    make_images,
)
from ofcl.uncertainty.perturbations import ImageViews, NoisyCopies
from ofcl.uncertainty.scores import SCORES, find_score

# The parts


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    check_method(METHODS[name])


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.policy])
def test_policies(name):
    check_policy(METHODS[name].policy)


@pytest.mark.parametrize("rule", ["even", "released"])
@pytest.mark.parametrize("balanced", [True, False])
def test_memories(rule, balanced):
    def make():
        draws = generator(0, "memory")
        return Memory(9, Policy(random_key(draws), balanced=balanced), draws, rule)

    check_memory(make)


ROBUST = ("trimmed-mean", "median", "krum", "geometric-median")


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("average", ["scores", "softmax"])
def test_scores(name, average):
    check_score(find_score(name, average))


@pytest.mark.parametrize(
    "aggregate",
    [
        fedavg,
        weighted_fedavg,
        functools.partial(weighted_fedavg, class_weights="task", nested=0.5),
        trimmed_mean,
        median,
        krum,
        geometric_median,
    ],
    ids=["fedavg", "weighted", "weighted as released", *ROBUST],
)
def test_aggregations(aggregate):
    check_aggregation(aggregate)


@pytest.mark.parametrize(
    ("perturbation", "shape"),
    [
        (ImageViews(), (1, 8, 8)),
        (ImageViews(mean=(0.3,) * 3, std=(0.2,) * 3, interpolation="nearest"), (3, 9, 8)),
        (ImageViews(("crop", "rotate-45", "cutout-10"), draws="batch"), (1, 8, 8)),
        (ImageViews(pixels="normalised"), (1, 8, 8)),
        (NoisyCopies(), (6,)),
    ],
    ids=repr,
)
def test_perturbations(perturbation, shape):
    check_perturbation(perturbation, shape)


@pytest.mark.parametrize("draws", ["sample", "batch"])
@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
def test_changes(draws, interpolation):
    check_change(FlipAndRotate(draws, interpolation), (3, 8, 9))


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    check_model(MODELS[name].build)


def rows_of_a_stream():
    """Rows of two numbers in three tasks, of different lengths."""
    return [([float(n), -1.5], f"class {n % 3}", n // 5) for n in range(13)]


def test_array_streams():
    x, y = torch.arange(26.0).view(13, 2), torch.arange(13) % 3
    tasks = [np.arange(5), np.arange(5, 5), np.arange(5, 13)]
    check_stream(lambda: ArrayStream(x, y, tasks, batch_size=2))
    check_stream(lambda: ArrayStream(x, y, tasks, batch_size=3, limit=1))


@pytest.mark.parametrize("window", [None, 4])
def test_live_streams(window):
    def make():
        words = Vocabulary(("class 0", "class 1", "class 2"))
        form = Form(Pattern(), window=window)
        return LiveStream(0, IteratorFeed(rows_of_a_stream()), form, words, batch_size=3)

    check_stream(make)


def lines_of_json():
    return b"".join(
        json.dumps({"a": x[0], "b": x[1], "label": y}).encode() + b"\n"
        for x, y, _ in rows_of_a_stream()
    )


@pytest.mark.parametrize("items", ["list", "function", "iterator", "batches"])
def test_iterator_feeds(items):
    rows = rows_of_a_stream()
    batches = [(np.ones((3, 2)) * n, ["a", "b", "c"]) for n in range(4)]
    make = {
        "list": lambda: rows,
        "function": lambda: lambda taken: rows[taken:],
        "iterator": lambda: iter([*rows[:5], None, *rows[5:]]),
        "batches": lambda: iter(batches),
    }[items]
    check_feed(lambda: IteratorFeed(make()))


def test_json_lines_of_a_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines_of_json())
    with path.open("rb") as file:
        check_feed(lambda: JsonLines(file, Reading()))


def test_json_lines_of_a_pipe():
    opened = []

    def make():
        reading, writing = os.pipe()
        os.write(writing, lines_of_json())
        os.close(writing)
        opened.append(os.fdopen(reading, "rb"))
        return JsonLines(opened[-1], Reading())

    check_feed(make)
    for file in opened:
        file.close()


def test_watched_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)
    for name in ("first", "second"):
        rows = "".join(f"{x[0]},{x[1]},{y}\n" for x, y, _ in rows_of_a_stream()[:4])
        (tmp_path / f"{name}.csv").write_text("a,b,label\n" + rows)
    check_feed(lambda: WatchedFolder(tmp_path, Reading(), idle=0.0))


# Runs: every method × aggregation × protocol, and settings one by one

FIELD = [name for name, method in METHODS.items() if method.learner is not None]
REMEMBERING = [name for name, m in METHODS.items() if m.generative is None and name not in FIELD]
KEEPS = [(m, k) for m in REMEMBERING for k in (("bottom",) if METHODS[m].score is None
                                           else ("bottom", "top"))]  # fmt: skip
COMBINATIONS = [
    (*method, aggregation, protocol)
    for method, aggregation, protocol in itertools.product(
        KEEPS, ("fedavg", "weighted", "fedprox"), ("sound", "published", "strong")
    )
] + [("er", "bottom", aggregation, "sound") for aggregation in ROBUST]
COMBINATIONS += [  # methods with a learner of their own: each aggregation and protocol once
    (method, "bottom", *both)
    for method in FIELD
    for both in (("median", "sound"), ("weighted", "published"), ("fedprox", "strong"))
]
FEW_VECTORS, FEW_IMAGES = make_blobs(train=24), make_images(train=16, test=4)
ON_FEW_IMAGES = {**TINY_IMAGES, "burn_in": 1, "fitting_epochs": 2}


def start(data, values, **more):
    return Run(make_settings({**values, **more}), data)


def check(run):
    """Checks a run of which rounds and forgetting are expected; gives its result."""
    result = check_run(run)
    assert result.rounds > 0
    assert result.F is not None
    return result


@pytest.mark.parametrize(("method", "keep", "aggregation", "protocol"), COMBINATIONS)
def test_vectors(method, keep, aggregation, protocol):
    values = {"method": method, "keep": keep, "aggregation": aggregation, "fitting_epochs": 2}
    check(start(FEW_VECTORS, values, **{**TINY, "protocol": protocol}))


@pytest.mark.parametrize("method", REMEMBERING)
@pytest.mark.parametrize("protocol", ["sound", "published", "strong"])
def test_images(method, protocol):
    check(start(FEW_IMAGES, {"method": method}, **{**ON_FEW_IMAGES, "protocol": protocol}))


@pytest.mark.parametrize("method", FIELD)
def test_images_of_the_field(method):
    check(start(FEW_IMAGES, {"method": method}, **{**ON_FEW_IMAGES, "protocol": "published"}))


@pytest.mark.parametrize("method", [name for name, m in METHODS.items() if m.generative])
@pytest.mark.parametrize("task_order", ["overlap", "non-overlap"])
def test_images_that_are_made(method, task_order):
    few = {"synthetic": 8, "generator_steps": 2, "consolidation": 1, "task_order": task_order}
    check(start(FEW_IMAGES, {"method": method, **few}, **ON_FEW_IMAGES))


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
        {"keep": "weighted", "rescore": "on-arrival"},
        {"keep": "spread", "memory_rule": "released"},
        {"keep": "diverse", "scoring_model": "current", "rescore": "every-batch"},
        {"keep": "top", "score_scale": "rank", "replay_draw": "key"},
        {"replay_draw": "class"},
        {"label_noise": 0.2, "method": "loss"},
        {"input_noise": 0.2, "method": "loss", "scoring_mode": "train"},
    ],
    ids=lambda values: ",".join(f"{k}={v}" for k, v in values.items()),
)
@pytest.mark.parametrize("kind", ["vector", "image"])
def test_settings_one_by_one(kind, values):
    data, tiny = (FEW_VECTORS, TINY) if kind == "vector" else (FEW_IMAGES, ON_FEW_IMAGES)
    check(start(data, {"method": "bi", **tiny}, **values))


def test_memory_helps_on_data_that_can_be_learned(blobs):
    tiny = {**TINY, "memory": 30, "optimizer": "sgd", "lr": 0.1, "steps": 3}
    results = {m: check(start(blobs, {"method": m, **tiny})) for m in ("none", "er", "bi")}
    assert results["er"].A > results["none"].A + 10
    assert results["bi"].A > results["none"].A + 10
    assert results["none"].F > results["bi"].F + 10


def test_one_client_alone_learns_without_rounds_under_published(blobs):
    run = start(blobs, {**TINY, "method": "er"}, clients=1, protocol="published")
    assert not [event for event in run if isinstance(event, Round)]
    assert run.result().A > 0
