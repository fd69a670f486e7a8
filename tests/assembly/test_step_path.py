"""The way of gradient steps that a user is told is the one that is taken."""

import io

import pytest
import torch
from rich.console import Console
from rich.progress import Progress

from ofcl import Run, make_settings
from ofcl.assembly.step_path import find_step_path
from ofcl.cli.progress import Bar
from ofcl.methods.accompanied import Accompanied
from ofcl.methods.stacked import Stack
from tests.conftest import TINY, TINY_IMAGES
from tests.support.commands import in_one_process
from tests.support.commands import ofcl as command

QUICK = {"burn_in": 1, "q": 2, "limit": 2, "fitting_epochs": 1}


def path(data, monkeypatch, **values):
    """What a run says, and whether it has stacked steps."""
    stacked = []
    take_steps = Stack.take_steps
    monkeypatch.setattr(
        Stack, "take_steps", lambda *a: stacked.append(len(a[1]) > 1) or take_steps(*a)
    )
    run = Run(make_settings({**QUICK, **values}), data)
    list(run)
    return run.participants.steps.in_words(), any(stacked)


@pytest.mark.filterwarnings("ignore:.*does nothing here")
@pytest.mark.parametrize("change", [{"method": "bi"}, {"method": "lwf"}, {"method": "gdumb"},
                                    {"method": "bi", "aggregation": "fedprox"},
                                    {"method": "bi", "clients": 1, "min_clients": 1}])  # fmt: skip
def test_steps_are_stacked_where_a_run_says_so(monkeypatch, blobs, change):
    said, stacked = path(blobs, monkeypatch, **{**TINY, **change})
    assert stacked == (change == {"method": "bi"})
    assert said.startswith("gradient steps: stacked (" if stacked else "gradient steps: plain (")
    assert said.endswith("in float32")


def test_a_network_of_images_takes_plain_steps_on_a_cpu(monkeypatch, images):
    said, stacked = path(images, monkeypatch, **{**TINY_IMAGES, "precision": "bfloat16"})
    assert (said, stacked) == (
        "gradient steps: plain (each client by itself, step by step), in float32", False
    )  # fmt: skip


@pytest.mark.parametrize(("capture", "name"), [(True, "captured"), (False, "plain")])
@pytest.mark.parametrize("method", ["er", "gdumb"])
def test_a_gpu_replays_steps_unless_the_network_varies(images, monkeypatch, capture, name, method):
    """Only the words: the device is put in after the learner was made on the CPU."""
    run = Run(make_settings({**TINY_IMAGES, **QUICK, "method": method}), images)
    learner = run.clients[0].learner
    learner.precision = torch.bfloat16
    monkeypatch.setattr(learner, "_device", torch.device("cuda"))
    monkeypatch.setattr(learner._captured, "_device", torch.device("cuda"))
    monkeypatch.setattr(learner._captured, "_capture", capture)
    for found in (find_step_path([learner]), find_step_path([Accompanied(learner, learner)])):
        assert (found.path, found.precision) == (name, "bfloat16" if method == "er" else "float32")


@in_one_process
def test_the_first_lines_say_it(tmp_path):
    few = ["run", "--dataset", "digits", "--set", "model=mlp", "--limit", 2, "--clients", 2]
    code, _, err = command(*few, "--method", "er", cwd=tmp_path)
    assert code == 0, err
    assert "gradient steps: stacked (those of up to 16 clients as one computation)" in err
    code, _, err = command(*few, "--method", "er", "-q", cwd=tmp_path)
    assert (code, "gradient steps" in err) == (0, False)


def test_the_bar_says_it(images):
    run = Run(make_settings({**TINY_IMAGES, **QUICK, "method": "er"}), images)
    with Progress(console=Console(file=io.StringIO())) as progress:
        bar = Bar(run, "er", progress)
        bar.show(next(iter(run)))
        assert progress.tasks[0].description.endswith("rounds 0  plain")
    run.close()
