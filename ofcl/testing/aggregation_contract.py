"""The contract of an aggregation: the clients' updates → one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ofcl.aggregation import Aggregation
from ofcl.seeds import generator
from ofcl.state import Tensors
from ofcl.testing.contract import almost_equal, find_difference, require, untouched_generators
from ofcl.update import Update

SHAPES = {"hidden.weight": (4, 3), "scale": (), "head.weight": (5, 4), "head.bias": (5,)}


def check_aggregation(aggregate: Aggregation) -> None:
    """Checks that a function makes one model of the clients' updates.

    The model is finite and has the tensors of the updates. If all updates are equal, the model is
    the same as they are. The order of the clients does not matter. All of this holds for a single
    client, for a client without samples, with and without class counts, and with and without a
    previous model.

    Args:
        aggregate: The function, from updates and the previous model (or None) to a model.

    Raises:
        ContractBroken: If it does not keep one of these promises.
    """
    updates = _make_updates(5)
    uncounted = [replace(update, classes={}) for update in updates]
    idle = replace(updates[0], samples=0, classes={})
    previous = _make_model(99)
    with untouched_generators("an aggregation"):
        for given in (updates, updates[:1], uncounted, [idle, *updates[1:]]):
            for before in (None, previous):
                _check_model_of(aggregate, given, before)
        for before in (None, previous):
            _check_order(aggregate, updates, before)
        _check_equal_updates(aggregate, updates)


def _make_model(number: int) -> Tensors:
    """Draws the tensors of a small model; each number gives another model."""
    draw = generator(number, "aggregation contract")
    return {name: torch.randn(shape, generator=draw) for name, shape in SHAPES.items()}


def _make_updates(clients: int) -> list[Update]:
    """Makes an update for each client, with different models and class counts."""
    updates = []
    for client in range(clients):
        classes = {0: 3 + client, 1 + client % 4: 2 * client + 1}
        updates.append(Update(client, _make_model(client), sum(classes.values()), classes))
    return updates


def _check_model_of(
    aggregate: Aggregation, updates: Sequence[Update], previous: Tensors | None
) -> None:
    """Requires a finite model with the updates' tensors, and that the inputs stay as they were.

    Args:
        aggregate: The function to check.
        updates: The updates that it is given.
        previous: The previous model that it is given, or None.
    """
    given = [update.state for update in updates] + ([previous] if previous else [])
    before = [{name: value.clone() for name, value in model.items()} for model in given]
    model = aggregate(updates, previous)
    who = f"{len(updates)} updates, of {[update.samples for update in updates]} samples"
    require(
        list(model) == list(SHAPES),
        f"the model has the tensors of the updates, {list(SHAPES)}; of {who} came {list(model)}",
    )
    for name, value in model.items():
        like = updates[0].state[name]
        require(
            value.shape == like.shape and value.dtype == like.dtype,
            f"tensors keep shape and type: '{name}' is {tuple(like.shape)} {like.dtype} in the "
            f"updates, and came as {tuple(value.shape)} {value.dtype}",
        )
        require(
            bool(value.isfinite().all()),
            f"the model of finite updates is finite; '{name}' of {who} is not",
        )
    require(
        find_difference(before, given) is None,
        "an aggregation must not change the updates or the previous model",
    )


def _check_order(
    aggregate: Aggregation, updates: Sequence[Update], previous: Tensors | None
) -> None:
    """Requires the same model if the clients come in reverse order.

    Args:
        aggregate: The function to check.
        updates: The updates that it is given.
        previous: The previous model that it is given, or None.
    """
    model, reversed_model = aggregate(updates, previous), aggregate(updates[::-1], previous)
    for name, value in model.items():
        require(
            almost_equal(value, reversed_model[name]),
            f"the order of the clients does not matter; in reverse order '{name}' is another one",
        )


def _check_equal_updates(aggregate: Aggregation, updates: Sequence[Update]) -> None:
    """Requires that updates with the same model give this model.

    Args:
        aggregate: The function to check.
        updates: Updates whose models are replaced by that of the first.
    """
    common = updates[0].state
    for previous in (None, common):
        model = aggregate([replace(update, state=common) for update in updates], previous)
        for name, value in model.items():
            require(
                almost_equal(value, common[name]),
                f"clients that agree keep their model; of equal updates came another '{name}', off "
                f"by {(value - common[name]).abs().max():.3g}",
            )
