"""Parts that all contracts share: reporting a broken promise, comparing values, saving a state."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ofcl.state import State, flatten, unflatten


class ContractBroken(AssertionError):
    """The error for a part that does not keep a promise of its contract."""


def require(condition: bool, message: str) -> None:
    """Raises an error unless a promise is kept; unlike `assert`, also under `python -O`.

    Args:
        condition: Whether the promise is kept.
        message: The promise, what was expected and what came instead.

    Raises:
        ContractBroken: If the promise is not kept.
    """
    if not condition:
        raise ContractBroken(message)


def find_difference(first: Any, second: Any, where: str = "") -> str | None:
    """Finds the first place at which two nested values differ; tensors are compared bit for bit.

    >>> find_difference({"a": [1, torch.zeros(2)]}, {"a": [1, torch.ones(2)]})
    '.a.1'

    Args:
        first: Dictionaries and lists of tensors, arrays and plain values.
        second: Values to compare with the first.
        where: The path to these values in larger ones, with which the result begins.

    Returns:
        The path of the difference; None if the values are the same. Two NaNs count as equal.
    """
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        first, second = torch.from_numpy(first), torch.from_numpy(second)
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return None if _are_equal(first, second) else where or "all of it"
    if isinstance(first, dict) and isinstance(second, dict):
        if first.keys() != second.keys():
            return f"{where} (keys {sorted(first)} and {sorted(second)})"
        pairs = [(f"{where}.{key}", first[key], second[key]) for key in first]
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return f"{where} (lengths {len(first)} and {len(second)})"
        both = zip(first, second, strict=True)
        pairs = [(f"{where}.{i}", one, other) for i, (one, other) in enumerate(both)]
    else:
        is_same = type(first) is type(second) and bool(first == second)
        return None if is_same else f"{where} ({first!r} and {second!r})"
    differences = (find_difference(one, other, path) for path, one, other in pairs)
    return next((difference for difference in differences if difference), None)


def _are_equal(first: Tensor, second: Tensor) -> bool:
    """Tells whether tensors have the same type, shape and values; two NaNs count as equal."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return torch.equal(first.isnan(), second.isnan()) and torch.equal(
        first.nan_to_num(), second.nan_to_num()
    )


def save_and_read(state: State, part: str) -> State:
    """Converts a state to the format of checkpoints and back.

    The format knows only tensors and plain values.

    Args:
        state: The state of a part.
        part: The name of the part, for the error's message.

    Returns:
        A copy of the state, as it would be read from a checkpoint.

    Raises:
        ContractBroken: If the state has values that are neither tensors nor plain.
    """
    try:
        tensors, tree = flatten(state)
        plain = json.dumps(tree)
    except (TypeError, ValueError) as error:
        raise ContractBroken(
            f"the state of {part} must be tensors and plain values, to be saved: {error}"
        ) from error
    copy: State = unflatten(tensors, json.loads(plain))
    return copy


@contextmanager
def untouched_generators(part: str) -> Iterator[None]:
    """Requires that the code within the context leaves the global random generators as they were.

    Args:
        part: The name of the part that runs, for the error's message.

    Raises:
        ContractBroken: If the code has drawn from a global generator.
    """
    before = _global_generators()
    yield
    for name, state in _global_generators().items():
        require(
            find_difference(before[name], state) is None,
            f"{part} must draw from the generators that it is given; it drew from the global "
            f"generator of {name}",
        )


def _global_generators() -> dict[str, Any]:
    """Returns the states of the global random generators, by library."""
    return {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(),
        "random": random.getstate(),
    }


def almost_equal(first: Tensor, second: Tensor, tolerance: float = 1e-4) -> bool:
    """Tells whether two tensors have the same shape and type, and nearly the same values.

    Args:
        first: A tensor.
        second: The tensor to compare it with.
        tolerance: The largest difference, absolute and relative.
    """
    same_form = first.shape == second.shape and first.dtype == second.dtype
    return same_form and torch.allclose(first, second, atol=tolerance, rtol=tolerance)
