"""What the checks share: broken promises are told, and differences are found where they are."""

import inspect
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from ofcl.testing import ContractBroken, contract, require
from ofcl.testing.contract import (
    almost_equal,
    find_difference,
    save_and_read,
    untouched_generators,
)


def test_a_broken_promise_is_an_assertion_error():
    require(True, "kept")
    with pytest.raises(AssertionError, match="promised"):
        require(False, "promised")


def test_promises_are_required_without_assert_statements_too():
    optimised = compile(inspect.getsource(contract), "contract", "exec", optimize=2)
    names = {"__name__": "contract"}
    exec(optimised, names)  # as `python -O` would
    with pytest.raises(names["ContractBroken"], match="promised"):
        names["require"](False, "promised")


def test_the_checks_need_neither_pytest_nor_the_terminal():
    for path in Path(contract.__file__).parent.glob("*.py"):
        imports = [line for line in path.read_text().splitlines() if "import" in line.split()]
        for module in ("pytest", "hypothesis", "typer", "rich"):
            assert not [line for line in imports if module in line.split()]


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        ({"a": [1, {"b": torch.zeros(2)}]}, {"a": [1, {"b": torch.ones(2)}]}, ".a.1.b"),
        (torch.zeros(2), torch.zeros(3), "all of it"),
        (torch.zeros(1), torch.zeros(1, dtype=torch.long), "all of it"),
        (torch.tensor([float("nan")]), torch.zeros(1), "all of it"),
        (np.zeros(2), np.ones(2), "all of it"),
        ({"a": 1}, {"b": 1}, " (keys ['a'] and ['b'])"),
        ([1, 2], [1], " (lengths 2 and 1)"),
        ([1, "x"], [1, "y"], ".1 ('x' and 'y')"),
        (1, 1.0, " (1 and 1.0)"),
    ],
)
def test_differences_are_found(first, second, where):
    assert find_difference(first, second) == where


@pytest.mark.parametrize(
    "value", [torch.tensor([1.0, float("nan")]), {"a": [1, None, (2, "x")]}, np.arange(3), 5]
)
def test_what_is_the_same_has_no_difference(value):
    assert find_difference(value, value) is None


def test_almost_equal_is_to_rounding():
    assert almost_equal(torch.ones(2), torch.ones(2) + 1e-6)
    assert not almost_equal(torch.ones(2), torch.ones(2) + 1e-2)
    assert not almost_equal(torch.ones(2), torch.ones(1))


@pytest.mark.parametrize("state", [{"a": object()}, {"a": {1: 2}}])
def test_a_state_that_cannot_be_saved_is_refused(state):
    with pytest.raises(ContractBroken, match="the state of a thing must be tensors and plain"):
        save_and_read(state, "a thing")


def test_a_state_that_was_saved_is_a_copy():
    state = {"a": torch.zeros(2), "b": [1, {"c": "x"}]}
    read = save_and_read(state, "a thing")
    assert find_difference(state, read) is None
    assert read["a"] is not state["a"]


@pytest.mark.parametrize(
    ("draw", "whose"),
    [
        (lambda: torch.rand(1), "torch"),
        (lambda: np.random.rand(1), "numpy"),
        (random.random, "random"),
    ],
)
def test_draws_from_a_global_generator_are_seen(draw, whose):
    with (
        pytest.raises(ContractBroken, match=f"a thing must draw .* generator of {whose}"),
        untouched_generators("a thing"),
    ):
        draw()
