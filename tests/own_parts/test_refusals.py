"""Parts of one's own that cannot be used: each is refused in a line that says what is wrong."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ofcl
from ofcl import OfclError
from ofcl.data.dataset import Dataset
from ofcl.testing import TINY, make_blobs

HERE = "tests.own_parts.test_refusals"
number = 3


class WithoutInit(nn.Module):
    """PyTorch gives it a constructor that seems to take anything."""

    def forward(self, x):
        return x


class TwoOutputs(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


class NeedsMore(nn.Module):
    def __init__(self, depth, width):
        super().__init__()


def failing(num_classes):
    raise ValueError("no such file")


REFUSED = [
    ({"model": lambda: TwoOutputs(8, 6)}, "must return logits, one row for each sample.* tuple"),
    ({"model": lambda: nn.Unflatten(1, (2, 4))}, r"one row for each sample; .* came \(2, 2, 4\)"),
    ({"model": lambda: nn.Linear(5, 6)}, "cannot take samples of the shape 8: mat1 and mat2"),
    ({"model": lambda: 3}, "must be an nn.Module, or make one; it made a int"),
    ({"model": NeedsMore}, "has parameters that nobody gives: .* num_classes, or an .*ModelSize"),
    ({"model": failing}, "cannot be made: ValueError: no such file"),
    ({"loss": f"{HERE}:number"}, "must be a function of logits and classes.*; it is a int"),
    ({"loss": lambda logits: logits.sum()}, "must be a function of logits and classes"),
    ({"loss": lambda logits, y: logits}, "must return one number"),
    ({"score": f"{HERE}:number"}, "the score '.*' must be a function or a class; it is a int"),
    ({"score": lambda: 3}, r"must be a function of logits \(views, n, classes\)"),
    ({"score": lambda logits: logits}, r"must return a number for each sample, .* returned \("),
    ({"score": lambda logits: 0.5}, r"must return a number for each sample, .* returned float"),
    ({"policy": f"{HERE}:number"}, "the policy '.*' must be a function or a class; it is a int"),
    ({"policy": lambda parts: 3}, "the policy '.*' must make an ofcl.Policy; it made a int"),
    ({"aggregation": f"{HERE}:number"}, "the aggregation '.*' must be a function or a class"),
    ({"aggregation": lambda u, p: 3}, "must return a model, a dictionary .* returned a int"),
    ({"aggregation": lambda u, p: {}}, "must return a model, .* a dict with others"),
    ({"optimizer": f"{HERE}:number"}, "the optimizer '.*' must be a function or a class"),
    ({"optimizer": lambda parameters: 3}, "must take the parameters, and lr by its name"),
    ({"dataset": f"{HERE}:number"}, "the dataset '.*' must be a function or a class; it is a int"),
]


def four(logits, y, new, current):
    assert 0 < new <= len(y)
    return nn.functional.cross_entropy(logits, y)


def test_a_loss_behind_a_wrapper_gets_all_that_it_may_take(blobs):
    def wrapped(*values):
        return four(*values)

    assert ofcl.run(blobs, **{**TINY, "method": "cbr", "loss": wrapped}).A is not None


def test_an_aggregation_may_leave_tensors_out(blobs):
    """Those stay as they are: personal heads, say."""

    def bodies(updates, previous):
        names = [name for name in updates[0].state if not name.startswith("head")]
        return {n: torch.stack([u.state[n] for u in updates]).mean(0) for n in names}

    result = ofcl.run(
        blobs, **{**TINY, "method": "cbr", "burn_in": 0, "lr": 0.01, "aggregation": bodies}
    )
    assert result.rounds > 0


@pytest.fixture(scope="module")
def blobs() -> Dataset:
    return make_blobs(train=20)


@pytest.mark.parametrize(("part", "message"), REFUSED)
def test_a_part_that_cannot_be_used_is_refused(blobs, part, message):
    data = [] if "dataset" in part else [blobs]
    with pytest.raises(OfclError, match=message):
        ofcl.run(*data, **{**TINY, "burn_in": 0, "lr": 0.01, "method": "cbr", **part})


@pytest.mark.parametrize(
    "part",
    [
        {"loss": nn.CrossEntropyLoss(label_smoothing=0.1)},
        {"loss": nn.CrossEntropyLoss},
        {"loss": functools.partial(F.cross_entropy, label_smoothing=0.1)},
        {"score": lambda logits: 1 - logits.softmax(-1).amax(-1).mean(0)},
        {"model": WithoutInit},  # it returns the samples, and gets a head
    ],
)
def test_parts_of_unusual_forms_are_used(blobs, part):
    assert ofcl.run(blobs, **{**TINY, "burn_in": 0, "lr": 0.01, "method": "cbr", **part}).rounds > 0


def test_a_module_of_pytorch_and_its_function_are_the_same_loss(blobs):
    given = {**TINY, "burn_in": 0, "lr": 0.01, "method": "cbr"}
    results = [ofcl.run(blobs, **given, loss=f) for f in (nn.CrossEntropyLoss(), F.cross_entropy)]
    assert results[0].accuracy == results[1].accuracy
