"""Memories on the page are those of the clients."""

import types
from collections import Counter

import numpy as np
import pytest
import torch

import ofcl
from ofcl import Memory, Policy, Run, make_settings
from ofcl.data.loading import load_dataset
from ofcl.events import Remembered
from ofcl.report.memory_samples import view_memories
from ofcl.report.page import make_report
from ofcl.report.recorded_runs import read_experiments
from ofcl.storage.checkpoint import load_checkpoint
from tests.conftest import TINY, TINY_IMAGES
from tests.support.report_pages import decoded, pixels_of

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once


def test_pictures_are_those_of_the_memory_and_of_the_data(demo):
    (experiment,) = read_experiments([demo / "bi"])
    train = {image.numpy().tobytes() for image in load_dataset("fashion-mini").x_train[:, 0]}
    memories = view_memories(experiment.runs[0], most=12)
    assert len(memories) == 3
    for memory in memories:
        pixels = pixels_of(demo / "bi", memory.client)
        assert memory.size == len(pixels) == 30
        assert len(memory.samples) == 12
        assert len({sample.label for sample in memory.samples}) >= 5  # some of every class
        for sample in memory.samples:
            assert np.array_equal(decoded(sample.picture), pixels[sample.number])
            assert decoded(sample.picture).tobytes() in train
            assert sample.uncertainty >= 0
            assert sample.age >= 0
        assert min(memory.kept) >= 0
        assert len(memory.dropped) > 0


def test_age_task_and_uncertainty_are_those_of_the_sample(demo):
    (experiment,) = read_experiments([demo / "bi"])
    for memory in view_memories(experiment.runs[0], most=1000):
        state = load_checkpoint(demo / "bi" / "checkpoint", print).state["engine"]["clients"]
        held = state[memory.client]["learner"]["memory"]
        table = held["samples"]
        known = {n: (t, k, y) for n, t, k, y in zip(*(table[c].tolist() for c in (
            "id", "task", "key", "y")), strict=True)}  # fmt: skip
        labels = load_dataset("fashion-mini").labels
        assert len(memory.samples) == len(known)
        for sample in memory.samples:
            task, key, y = known[sample.number]
            assert (sample.task, sample.label) == (task, labels[y])
            assert sample.uncertainty == pytest.approx(key)
            assert sample.age == held["arrived"] - 1 - sample.number
        assert held["arrived"] == 6 * 10 * 5  # mini-batches, samples, tasks
        assert len({sample.uncertainty for sample in memory.samples}) > 10


def test_what_memories_hold_at_the_end_is_what_was_told_last(demo):
    (experiment,) = read_experiments([demo / "cbr"])
    run = experiment.runs[0]
    last = {event["client"]: event for event in run.events_of("remembered")}
    assert len(run.events_of("remembered")) == 3 * 5  # at the end of each task
    for memory in view_memories(run, most=1000):
        counted = Counter((s.task, run.labels.index(s.label)) for s in memory.samples)
        told = {(task, c): n for task, c, n in last[memory.client]["held"]}
        assert told == counted
        assert last[memory.client]["batches"] == 6 * 5
    part = make_report([demo / "cbr"]).experiments[0].runs[0]
    numbers = {drawn.name: drawn.numbers for drawn in part.memory}
    tasks = [f"task {t}" for t in range(1, 6)]
    assert numbers["memory-by-task"].columns == ["mini-batches", *tasks]
    assert numbers["memory-by-class"].columns == ["mini-batches", *run.labels]
    for name in ("memory-by-task", "memory-by-class"):
        assert sum(map(float, numbers[name].rows[-1][1:])) == 3 * 30


def test_a_resumed_run_tells_the_same_of_its_memories(tmp_path, blobs, monkeypatch):
    monkeypatch.setattr("ofcl.client.BATCHES_BETWEEN_COUNTS", 3)
    made = make_settings({**TINY, "method": "bi", "checkpoint_every": 1})
    whole = Run(made, blobs)
    events = list(whole)
    assert sum(isinstance(event, Remembered) for event in events) > 2 * 3 * 2
    for n, _ in enumerate(Run(made, blobs, tmp_path / "run")):
        if n == 45:
            break
    resumed = Run.resume(tmp_path / "run", blobs)
    list(resumed)
    assert resumed.events == events
    for one, other in zip(whole.clients, resumed.clients, strict=True):
        kept = [client.learner.memory.state()["dropped"] for client in (one, other)]
        assert len(kept[0]) > 20
        assert torch.equal(*kept)


def test_of_those_that_went_the_newest_are_known(monkeypatch):
    monkeypatch.setattr("ofcl.memory.memory.DROPPED", 4)
    scorer = types.SimpleNamespace(frozen=True, state=dict)
    memory = Memory(2, Policy(lambda x: x[:, 0], scorer=scorer), torch.Generator())
    for start in (10, 20, 30):
        x = torch.arange(start, start + 3, dtype=torch.float).view(3, 1)
        memory.update(x, torch.zeros(3, dtype=torch.long), task=0)
    assert sorted(memory.samples.key.tolist()) == [10, 11]
    assert sorted(memory.state()["dropped"].tolist()) == [22, 30, 31, 32]
    assert memory.class_counts() == [[0, 0, 2]]


@pytest.mark.parametrize("keep", ["bottom", "top"])
def test_uncertainty_is_what_the_policy_sorts_by(tmp_path, images, keep):
    ofcl.run(images, out=tmp_path / "run", method="bi", keep=keep, **TINY_IMAGES)
    (experiment,) = read_experiments([tmp_path])
    for memory in view_memories(experiment.runs[0], most=100):
        assert all(value >= 0 for value in memory.kept + memory.dropped)
        kept, dropped = np.median(memory.kept), np.median(memory.dropped)
        assert (kept < dropped) == (keep == "bottom")


def test_a_page_of_many_clients_stays_small(tmp_path, blobs):
    many = {**TINY, "clients": 20, "tasks": 2, "method": "er", "batch_size": 2}
    ofcl.run(blobs, out=tmp_path / "run", **many)
    (experiment,) = read_experiments([tmp_path])
    memories = view_memories(experiment.runs[0], most=60)
    assert len(memories) == 20
    assert sum(len(memory.samples) for memory in memories) <= 600
