"""Heads that grow: an output for every new class; the old outputs do not change.

A new output starts from values that depend only on the run's seed and the class. So all clients and
the server start it from the same values, whenever each of them learns that the class exists.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ofcl.seeds import generator
from ofcl.state import COMPANION, Tensors

WEIGHT, BIAS = "head.weight", "head.bias"
BESIDE = {WEIGHT: "head_weight", BIAS: "head_bias"}
"""The buffers of a companion that have the shapes of the head's tensors, and grow with them."""
COMPANIONS = tuple(f"{COMPANION}.{name}" for name in BESIDE.values())
FEWEST_CLASSES = 2  # that a model starts with: some scores compare the two likeliest classes


def outputs(model: nn.Module) -> int:
    """Counts the classes that a module has outputs for.

    Args:
        model: A module with a linear `head`.
    """
    head: nn.Linear = model.head  # type: ignore[assignment]
    return head.out_features


def width(model: Tensors) -> int:
    """Counts the classes that a model has outputs for; 0 if its tensors include no head.

    Args:
        model: The named tensors of the model, or some of them.
    """
    return len(model[BIAS]) if BIAS in model else 0


def new_outputs(seed: int, first: int, last: int, features: int) -> tuple[Tensor, Tensor]:
    """Draws the weights and biases of new outputs, from the range that a linear layer starts with.

    Args:
        seed: The run's seed.
        first: The first new class.
        last: One more than the last new class.
        features: The number of inputs of the head.

    Returns:
        Weights (last − first, features) and biases (last − first,).
    """
    bound = features**-0.5
    rows = [
        torch.rand(features + 1, generator=generator(seed, "head", c)) for c in range(first, last)
    ]
    values = torch.stack(rows).mul_(2 * bound).sub_(bound)
    return values[:, :features], values[:, features]


def grown(model: Tensors, classes: int, seed: int) -> Tensors:
    """Returns a model's tensors with as many outputs added to its head as are missing.

    >>> small = {"head.weight": torch.ones(2, 3), "head.bias": torch.ones(2)}
    >>> grown(small, 4, seed=0)["head.weight"].shape
    torch.Size([4, 3])

    Args:
        model: The named tensors. If they include no head, or the head is large enough, they are
            returned as they are.
        classes: The number of outputs that are needed.
        seed: The run's seed, from which new outputs start.
    """
    if not 0 < width(model) < classes:
        return model
    weight, bias = model[WEIGHT], model[BIAS]
    new_weight, new_bias = new_outputs(seed, len(bias), classes, weight.shape[1])
    beside = {name: model[name] for name in COMPANIONS if name in model}
    return model | {
        WEIGHT: torch.cat([weight, new_weight.to(weight)]),
        BIAS: torch.cat([bias, new_bias.to(bias)]),
        **{name: with_zeros(value, classes) for name, value in beside.items()},
    }


def with_zeros(values: Tensor, rows: int) -> Tensor:
    """Adds rows of zeros to a tensor.

    Args:
        values: The tensor, with a row for each class.
        rows: The number of rows that there are afterwards.
    """
    return torch.cat([values, values.new_zeros(rows - len(values), *values.shape[1:])])


Swapped = list[tuple[nn.Parameter, nn.Parameter]]
"""Pairs of an old parameter and the parameter that replaces it."""


def grow_head(model: nn.Module, classes: int, seed: int) -> Swapped:
    """Adds as many outputs to a module's head as are missing.

    Args:
        model: A module with a linear `head`, which is changed.
        classes: The number of outputs that are needed.
        seed: The run's seed, from which new outputs start.

    Returns:
        Pairs of an old parameter of the head and the new one in its place, for `grow_optimizer`.
    """
    old = {name: model.get_parameter(name) for name in (WEIGHT, BIAS)}
    larger = grown({name: p.detach() for name, p in old.items()}, classes, seed)
    head = model.get_submodule("head")
    assert isinstance(head, nn.Linear)
    # A new parameter, as the old one would still expect gradients of the old shape.
    head.weight, head.bias = (nn.Parameter(larger[name].clone()) for name in (WEIGHT, BIAS))
    head.out_features = len(head.bias)
    if (companion := getattr(model, COMPANION, None)) is not None:
        for name in BESIDE.values() & dict(companion.named_buffers()).keys():
            companion.register_buffer(name, with_zeros(companion.get_buffer(name), classes))
    return [(old[WEIGHT], head.weight), (old[BIAS], head.bias)]


def grow_optimizer(optimizer: torch.optim.Optimizer, swapped: Swapped) -> None:
    """Puts the new parameters of a head that has grown into an optimiser, in place of the old ones.

    The state of the old outputs is kept; that of the new ones starts from zero.

    Args:
        optimizer: The optimiser of the model's parameters, which is changed.
        swapped: The pairs of parameters that `grow_head` returned.
    """
    for old, new in swapped:
        for group in optimizer.param_groups:
            group["params"] = [new if p is old else p for p in group["params"]]
        state = optimizer.state.pop(old, {})
        for key, value in state.items():
            if isinstance(value, Tensor) and value.shape == old.shape:
                more = new.new_zeros(len(new) - len(old), *new.shape[1:])
                state[key] = torch.cat([value, more])
        if state:
            optimizer.state[new] = state
