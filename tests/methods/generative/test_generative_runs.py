"""Whole runs of MFCL and FedCIL: that they can resume, what they hand out, what they refuse."""

import itertools
import signal
from dataclasses import replace

import pytest
import torch

import ofcl
from ofcl import Run, make_settings
from ofcl.errors import OfclError
from ofcl.events import Evaluated, Learned, Round, TaskEnded
from ofcl.experiment import Interrupted
from tests.conftest import TINY_IMAGES, make_blobs, make_images
from tests.test_experiment import assert_same, whole

TINY = {
    **TINY_IMAGES, "steps": 1, "synthetic": 8, "generator_steps": 2, "consolidation": 1,
    "burn_in": 1, "q": 2,
}  # fmt: skip
BOTH = pytest.mark.parametrize("method", ["mfcl", "fedcil"])


@BOTH
def test_a_run_that_stops_anywhere_ends_like_one_that_did_not(tmp_path, method):
    data = make_images(classes=6, train=12)
    made = make_settings({**TINY, "tasks": 3, "method": method, "checkpoint_every": 4})
    for _ in Run(made, data, tmp_path / "whole"):
        pass
    for stop_after in (3, 14, 22):
        folder = tmp_path / f"broken {stop_after}"
        for n, _ in enumerate(Run(made, data, folder), 1):
            if n == stop_after:
                break
        assert n == stop_after
        ofcl.resume(folder, dataset=data)
        for one, other in zip(whole(tmp_path / "whole"), whole(folder), strict=True):
            assert_same(one, other)


@BOTH
def test_a_task_ends_for_all_and_what_is_handed_out_is_counted(tmp_path, method, images):
    run = Run(make_settings({**TINY, "method": method}), images, tmp_path / "run")
    rng = torch.get_rng_state()
    for _ in run:
        pass
    assert torch.equal(torch.get_rng_state(), rng)
    (ended,) = [event for event in run.events if isinstance(event, TaskEnded)]
    rounds = [event for event in run.events if isinstance(event, Round)]
    result = run.result()
    assert ended.task == 1
    assert (ended.bytes_received > 0) == (method == "mfcl")
    assert result.bytes_received == ended.bytes_received + sum(r.bytes_received for r in rounds)
    # FedCIL's clients send their last generator too, once there is one.
    first, last = rounds[0], rounds[-1]
    assert (last.bytes_sent > first.bytes_sent * 1.2) == (method == "fedcil")
    # MFCL's generator does not learn after the last task.
    wanted = {"task-1.png"} if method == "mfcl" else {"task-1.png", "task-2.png"}
    assert {p.name for p in (tmp_path / "run" / "pictures").iterdir()} == wanted


@BOTH
def test_ctrl_c_at_any_event_loses_none(tmp_path, images, method):
    made = make_settings({**TINY, "method": method, "limit": 1, "q": 1, "burn_in": 0})
    one = Run(made, images, tmp_path / "whole")
    for _ in one:
        pass
    assert {Learned, Round, Evaluated, TaskEnded} <= set(map(type, one.events))
    kinds = list(map(type, one.events))
    seen = {pair: n for n, pair in reversed(list(enumerate(itertools.pairwise(kinds))))}
    assert len(seen) > 3
    for n in sorted(seen.values()):  # the first time that one kind of event follows another
        run = Run(made, images, tmp_path / str(n))
        with pytest.raises(Interrupted):
            for k, _ in enumerate(run):
                if k == n:
                    signal.raise_signal(signal.SIGINT)
        resumed = Run.resume(tmp_path / str(n), images)
        for _ in resumed:
            pass
        assert resumed.events == one.events
        assert resumed.result().bytes_received == one.result().bytes_received
        pictures = [sorted(p.name for p in (tmp_path / name / "pictures").iterdir())
                    for name in ("whole", str(n))]  # fmt: skip
        assert pictures[0] == pictures[1]


def test_the_teacher_is_the_global_model_also_where_clients_take_only_a_share(images):
    run = Run(make_settings({**TINY, "method": "mfcl", "mixing": 0.5}), images)
    for event in run:
        if isinstance(event, TaskEnded):
            break
    for client in run.clients:
        teacher = client.learner.lesson._teacher.model.state_dict()
        assert all(torch.equal(teacher[name], v) for name, v in run.server.model.items())


@BOTH
def test_a_task_that_is_empty_for_everybody(method):
    data = make_images(classes=3, train=12)
    rows = torch.cat([(data.y_train != 1).nonzero()[:, 0], (data.y_train == 1).nonzero()[:1, 0]])
    few = replace(data, x_train=data.x_train[rows], y_train=data.y_train[rows])
    result = ofcl.run(few, **{**TINY, "tasks": 3, "method": method, "validation": 0.1})
    assert result.A is not None


@BOTH
def test_clients_of_different_speed_wait_for_each_other(method):
    data = make_images(classes=4, train=30)
    values = {**TINY, "method": method, "split": "dirichlet", "alpha": 0.5, "clients": 3}
    run = Run(make_settings(values), data)
    ended = 0
    for event in run:
        if isinstance(event, TaskEnded):
            ended += 1
            assert {client.task for client in run.clients} == {ended}
    assert ended == 1


@BOTH
@pytest.mark.parametrize("aggregation", ["weighted", "fedprox"])
def test_other_averaging(images, method, aggregation):
    result = ofcl.run(images, **{**TINY, "method": method, "aggregation": aggregation})
    assert 0 <= result.A <= 100


@BOTH
@pytest.mark.parametrize(
    ("data", "values", "problem"),
    [
        (make_blobs(), {}, "tailored to them; 'blobs' has vectors"),
        (make_images(side=10), {}, "10 × 10"),
        (make_images(), {"batchnorm": "local"}, "needs the averaged BatchNorm statistics"),
        (make_images(), {"protocol": "published"}, r"\(protocol 'published'\) does not give"),
        (make_images(), {"stagger": 3}, "stagger cannot be used"),
        (make_images(), {"loss": "ace"}, "loss is for methods with a memory"),
        (make_images(), {"clients": 1}, "needs rounds"),
    ],
    ids=["vectors", "side", "local", "published", "stagger", "loss", "alone"],
)
def test_what_cannot_be_done_is_refused(method, data, values, problem):
    if data.kind == "image" and data.shape[1] == 10 and method == "fedcil":
        data, problem = make_images(side=40), "at most 32 × 32"
    with pytest.raises(OfclError, match=problem):
        ofcl.run(data, **{**TINY, "model": "auto", "method": method, **values})


def test_streams_and_the_acgan_alone_are_refused(images):
    with pytest.raises(OfclError, match="needs tasks that end for all clients"):
        ofcl.run(streams=[[([1.0], "a")]], method="mfcl")
    with pytest.raises(OfclError, match="the model acgan is for the method fedcil"):
        ofcl.run(images, **{**TINY, "method": "er", "model": "acgan"})
