"""State is tensors and plain values: what a checkpoint can hold without running code when read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ofcl.compute import foreach

State = dict[str, Any]
"""Nested dictionaries and lists of tensors, numbers, strings, booleans and None."""

Tensors = dict[str, Tensor]
"""The named tensors of a model."""

_MARK = "__tensor__"


def flatten(state: State) -> tuple[Tensors, State]:
    """Splits a state into its tensors, named by their paths, and a JSON tree that refers to them.

    >>> tensors, tree = flatten({"a": torch.ones(2), "b": [1, {"c": torch.zeros(1)}]})
    >>> sorted(tensors), tree["b"][1]["c"]
    (['a', 'b.1.c'], {'__tensor__': 'b.1.c'})
    """
    tensors: Tensors = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            tensors[path] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
            return {_MARK: path}
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                raise TypeError(f"state at '{path}' has keys that are not strings: {list(value)}")
            return {key: walk(item, f"{path}.{key}".lstrip(".")) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [walk(item, f"{path}.{i}") for i, item in enumerate(value)]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"state at '{path}' is a {type(value).__name__}, not a tensor or plain")

    return tensors, walk(state, "")


def unflatten(tensors: Tensors, tree: Any) -> Any:
    """The inverse of `flatten`."""
    if isinstance(tree, dict):
        if set(tree) == {_MARK}:
            return tensors[tree[_MARK]]
        return {key: unflatten(tensors, item) for key, item in tree.items()}
    if isinstance(tree, list):
        return [unflatten(tensors, item) for item in tree]
    return tree


def nbytes(tensors: Tensors) -> int:
    """How many bytes these tensors take when they travel."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def optimizer_state(optimizer: torch.optim.Optimizer) -> State:
    """What an optimiser has gathered, without its settings (those are in the run's settings)."""
    return {str(key): dict(value) for key, value in optimizer.state_dict()["state"].items()}


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: State) -> None:
    """Puts back what `optimizer_state` took."""
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict(
        {"state": {int(key): value for key, value in state.items()}, "param_groups": groups}
    )
    # Fused optimisers want what they gathered to lie in memory as the parameters do.
    for parameter, gathered in optimizer.state.items():
        for key, value in gathered.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                gathered[key] = torch.empty_like(parameter).copy_(value)


@torch.no_grad()
def copied(tensors: Tensors) -> Tensors:
    """A copy of each, of floating-point numbers: times one, which one call does for all."""
    return dict(zip(tensors, foreach.scaled(list(tensors.values()), 1.0), strict=True))


@torch.no_grad()
def copy_tensors(into: Tensors, source: Tensors) -> None:
    """Copies tensors into those of the same names; on a GPU, all at once."""
    foreach.copy_all(list(into.values()), [source[name] for name in into])
