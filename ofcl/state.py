"""State for checkpoints: tensors and plain values, which are read without running code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ofcl.compute import foreach

State = dict[str, Any]
"""Nested dictionaries and lists of tensors, numbers, strings, booleans and None."""

Tensors = dict[str, Tensor]
"""The named tensors of a model."""

COMPANION = "companion"
"""The submodule that a method may add to a model (`Method.companion`). Its tensors travel and are
averaged like the model's; the network does not use them, and a bundle is without them."""

_MARK = "__tensor__"
_PLAIN = frozenset({str, int, float, bool, type(None)})  # most values: they are looked at first


class Spare(dict[str, Tensor]):
    """Named tensors that never change and can be done without; checkpoints share their file.

    Attributes:
        checksum: The name under which they are saved; None: they are not saved yet.
    """

    checksum: str | None = None


class Flat(NamedTuple):
    """A state taken apart: its tensors by their paths, and a JSON tree that refers to them."""

    tensors: Tensors
    tree: State


def flatten(
    state: State | Flat, *, copy: bool = True, spare: Callable[[Spare], State] | None = None
) -> Flat:
    """Splits a state into its tensors, named by their paths, and a JSON tree that refers to them.

    Tensors are brought to the CPU. A part that is already a `Flat` is taken over without a copy.

    Args:
        state: A state, which may contain `Flat` parts or be one itself.
        copy: Whether tensors are copied, so that they may be changed afterwards.
        spare: Saves spare parts elsewhere, and gives what refers to them; None: they are tensors
            like all others.

    Returns:
        The tensors and the tree.

    Raises:
        TypeError: If the state contains something that is neither a tensor nor a plain value.

    >>> tensors, tree = flatten({"a": torch.ones(2), "b": [1, {"c": torch.zeros(1)}]})
    >>> sorted(tensors), tree["b"][1]["c"]
    (['a', 'b.1.c'], {'__tensor__': 'b.1.c'})
    """
    if isinstance(state, Flat):
        return state
    tensors: Tensors = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Flat):
            tensors.update({f"{path}.{name}": tensor for name, tensor in value.tensors.items()})
            return _moved(value.tree, path) if value.tensors else value.tree
        if isinstance(value, Tensor):
            here = value.detach().cpu()
            here = here.clone(memory_format=torch.contiguous_format) if copy else here.contiguous()
            tensors[path] = here
            return {_MARK: path}
        if isinstance(value, dict):
            if spare is not None and isinstance(value, Spare):
                return spare(value)
            if not all(map(_is_text, value)):
                raise TypeError(f"state at '{path}' has keys that are not strings: {list(value)}")
            start = f"{path}." if path else ""
            return {
                key: item if type(item) in _PLAIN else walk(item, start + key)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                item if type(item) in _PLAIN else walk(item, f"{path}.{i}")
                for i, item in enumerate(value)
            ]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"state at '{path}' is a {type(value).__name__}, not a tensor or plain")

    return Flat(tensors=tensors, tree=walk(state, ""))


def _is_text(key: Any) -> bool:
    """Tells whether a key is a string."""
    return isinstance(key, str)


def _moved(tree: Any, path: str) -> Any:
    """Gives a tree in which every reference to a tensor has `path` in front."""
    if isinstance(tree, dict):
        if _MARK in tree and len(tree) == 1:
            return {_MARK: f"{path}.{tree[_MARK]}"}
        return {k: v if type(v) in _PLAIN else _moved(v, path) for k, v in tree.items()}
    if isinstance(tree, list):
        return [item if type(item) in _PLAIN else _moved(item, path) for item in tree]
    return tree


def unflatten(tensors: Tensors, tree: Any) -> Any:
    """Puts a state together again from what `flatten` returned.

    Args:
        tensors: The tensors by their paths.
        tree: The JSON tree that refers to them.
    """
    if isinstance(tree, dict):
        if _MARK in tree and len(tree) == 1:
            return tensors[tree[_MARK]]
        return {k: v if type(v) in _PLAIN else unflatten(tensors, v) for k, v in tree.items()}
    if isinstance(tree, list):
        return [item if type(item) in _PLAIN else unflatten(tensors, item) for item in tree]
    return tree


def nbytes(tensors: Tensors) -> int:
    """Counts the bytes of named tensors.

    Args:
        tensors: The tensors by name.
    """
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def same_tensors(one: Tensors, other: Tensors) -> bool:
    """Tells whether two models are the very same tensors, not only equal ones.

    Args:
        one: The tensors of a model by name.
        other: Those of the other.
    """
    return one.keys() == other.keys() and all(one[name] is other[name] for name in one)


def optimizer_state(optimizer: torch.optim.Optimizer) -> State:
    """Returns the state of an optimiser, such as its running means, by the parameters' numbers.

    Settings such as the learning rate are left out: the run's settings have them.

    Args:
        optimizer: The optimiser.
    """
    return {str(key): dict(value) for key, value in optimizer.state_dict()["state"].items()}


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: State) -> None:
    """Gives an optimiser a saved state.

    Args:
        optimizer: The optimiser, made with the same settings and parameters as the saved one.
        state: The state that `optimizer_state` returned.
    """
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict(
        {"state": {int(key): value for key, value in state.items()}, "param_groups": groups}
    )
    # Fused optimisers need the memory layout of the parameters.
    for parameter, loaded in optimizer.state.items():
        for key, value in loaded.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                loaded[key] = torch.empty_like(parameter).copy_(value)


@torch.no_grad()
def copied(tensors: Tensors) -> Tensors:
    """Returns copies of named tensors, all made in a single call.

    Args:
        tensors: The tensors by name, of floating-point numbers: the copies are products with one.
    """
    return dict(zip(tensors, foreach.scaled(list(tensors.values()), 1.0), strict=True))


@torch.no_grad()
def copy_tensors(into: Tensors, source: Tensors) -> None:
    """Copies tensors into others of the same names, in one call.

    Args:
        into: The tensors that are overwritten.
        source: The tensors to copy; it may have more names than `into`.
    """
    foreach.copy_all(list(into.values()), [source[name] for name in into])
