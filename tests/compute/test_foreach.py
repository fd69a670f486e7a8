"""The private calls of PyTorch: what each does, and that nobody else makes them."""

import re
from pathlib import Path

import pytest
import torch

import ofcl
from ofcl.compute import foreach


def values(tensors):
    return [tensor.tolist() for tensor in tensors]


def pair():
    return [torch.tensor([1.0, 2.0]), torch.tensor(4.0)]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda a: foreach.copy_all(a, [torch.zeros(2), torch.tensor(7.0)]), [[0, 0], 7]),
        (
            lambda a: foreach.move_towards(a, [torch.zeros(2), torch.tensor(8.0)], 0.5),
            [[0.5, 1], 6],
        ),
        (lambda a: foreach.add_scaled(a, [torch.ones(2), torch.tensor(1.0)], -2.0), [[-1, 0], 2]),
        (lambda a: foreach.add_number(a, 1), [[2, 3], 5]),
        (lambda a: foreach.scale_all(a, 3.0), [[3, 6], 12]),
    ],
    ids=["copy", "move", "add scaled", "add number", "scale"],
)
def test_tensors_are_changed_in_place(call, expected):
    tensors = pair()
    assert call(tensors) is None
    assert values(tensors) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda a: foreach.between(a, [torch.zeros(2), torch.tensor(8.0)], 0.5), [[0.5, 1], 6]),
        (lambda a: foreach.scaled(a, 3.0), [[3, 6], 12]),
        (lambda a: foreach.sums(a, pair()), [[2, 4], 8]),
        (lambda a: foreach.differences(a, pair()), [[0, 0], 0]),
        (lambda a: foreach.norms([torch.tensor([3.0, 4.0]), a[1]]), [5, 4]),
    ],
    ids=["between", "scaled", "sums", "differences", "norms"],
)
def test_new_tensors_are_returned(call, expected):
    tensors = pair()
    assert values(call(tensors)) == expected
    assert values(tensors) == values(pair())


def test_no_other_module_makes_private_calls():
    package = Path(ofcl.__file__).parent
    private = re.compile(r"\btorch\._[a-z]\w*\(")
    callers = [p.name for p in package.rglob("*.py") if private.search(p.read_text())]
    assert callers == ["foreach.py"]
