"""Gradient steps can be captured and replayed: seen on a CPU, for every method that captures."""

import pytest
import torch

import ofcl
from ofcl.compute.cuda_graphs import Captured
from tests.conftest import TINY, TINY_IMAGES
from tests.support.capturable import watch_captures

METHODS = ["der", "scr", "mir", "gdumb", "icarl", "lwf", "ewc", "fedcbdr", "glfc"]
"""Of those with replay alone, a CPU takes the steps of all clients at once."""
QUICK = {"optimizer": "sgd", "lr": 0.01, "fitting_epochs": 3, "mir_candidates": 8, "limit": 6,
         "burn_in": 0, "q": 2}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*does nothing here")
@pytest.mark.parametrize("method", METHODS)
def test_steps_of_vectors_can_be_replayed(monkeypatch, blobs, method):
    compared = watch_captures(monkeypatch)
    ofcl.run(blobs, **{**TINY, **QUICK, "method": method})
    assert len(compared) >= 3


@pytest.mark.filterwarnings("ignore:.*does nothing here")
@pytest.mark.parametrize("method", ["er", "refed", "scr"])
def test_steps_of_images_can_be_replayed(monkeypatch, images, method):
    compared = watch_captures(monkeypatch)
    ofcl.run(images, **{**TINY_IMAGES, **QUICK, "method": method})
    assert len(compared) >= 3


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, outer: x * x.sum().item(),
        lambda x, outer: x[x > 0],
        lambda x, outer: x + torch.ones(3),
        lambda x, outer: x + torch.tensor(2.0),
        lambda x, outer: x + outer[-1],
        lambda x, outer: x + 1 if len(outer) < 5 else x * 2,
    ],
    ids=["reads", "mask", "cpu", "constant", "replaced", "branch"],
)
def test_what_cannot_be_replayed_is_noticed(monkeypatch, wrong):
    watch_captures(monkeypatch)
    outer = []
    captured = Captured(lambda x: wrong(x, outer), torch.device("cpu"))
    with pytest.raises(AssertionError):
        for _ in range(6):
            outer.append(torch.ones(3))
            captured(torch.ones(3))
