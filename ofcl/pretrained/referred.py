"""Frozen tensors that are referred to: everybody has them, so they neither travel nor are saved."""

from __future__ import annotations

import copy

from torch import Tensor, nn


def referred(model: nn.Module) -> frozenset[str]:
    """Names the tensors of a model that are only referred to; often none.

    A module with frozen tensors that can be had again, by a name and a checksum, has their names in
    its state as its attribute `referred`.

    Args:
        model: The model.
    """
    # Asked for several times in every round: `isinstance` with a protocol would be slow.
    names: frozenset[str] = getattr(model, "referred", frozenset())
    return names


def saved_state(model: nn.Module) -> dict[str, Tensor]:
    """Returns the state of a model without what is only referred to, not copied.

    Args:
        model: The model.
    """
    known = referred(model)
    return {name: value for name, value in model.state_dict().items() if name not in known}


def load_saved(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Puts back a state that `saved_state` returned.

    Args:
        model: The model, which has what is only referred to.
        state: The state.
    """
    known = referred(model)
    whole = model.state_dict()
    model.load_state_dict({**{name: whole[name] for name in known}, **state})


def copy_model(model: nn.Module) -> nn.Module:
    """Copies a model; what is only referred to is shared with the copy.

    Args:
        model: The model.
    """
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    known = referred(model)
    shared = {id(value): value for name, value in tensors.items() if name in known}
    return copy.deepcopy(model, shared)
