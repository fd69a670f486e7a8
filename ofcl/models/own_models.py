"""Networks of a user's own: from whatever was given to a function that builds the network."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ofcl.errors import OfclError
from ofcl.models.adapted import adapt
from ofcl.models.model import Model, ModelSize
from ofcl.own_parts.lookup import required_parameters, takes

CLASSES = ("num_classes", "classes")  # parameters for the number of outputs, as libraries call them


def own_model(name: str, part: Any) -> Model:
    """Makes a model that settings can name from a user's own.

    Args:
        name: The name that the settings have.
        part: A module, of which every client gets a copy; or a function or class that makes one.
            It is given the `ModelSize` if it takes one argument, the number of classes if it has a
            parameter `num_classes`, and nothing otherwise.

    Raises:
        OfclError: If nothing of this is given.
    """
    make = _maker(name, part)

    def build(size: ModelSize) -> nn.Module:
        try:
            module = make(size)
        except OfclError:
            raise
        except Exception as error:  # whatever a stranger's function raises
            raise OfclError(
                f"the model '{name}' cannot be made: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(module, nn.Module):
            raise OfclError(
                f"the model '{name}' must be an nn.Module, or make one; it made a "
                f"{type(module).__name__}"
            )
        return adapt(module, size.shape, size.classes, name)

    return Model(f"your own: {name}", build)


def _maker(name: str, part: Any) -> Callable[[ModelSize], Any]:
    """Returns a function that makes the module of a given size.

    Args:
        name: The name that the settings have, for messages.
        part: The module, or the function or class that makes one.
    """
    if isinstance(part, nn.Module):
        # A network that is only planned is built without memory, on the device `meta`.
        return lambda size: copy.deepcopy(part).to(torch.empty(0).device)
    if not callable(part):
        raise OfclError(
            f"the model '{name}' must be an nn.Module or a function that makes one; it is a "
            f"{type(part).__name__}"
        )
    keyword = _classes_parameter(part)
    if keyword is not None and takes(part, **{keyword: 2}):
        return lambda size: part(**{keyword: size.classes})
    if required_parameters(part) == 1:
        return lambda size: part(size)
    if takes(part):
        return lambda size: part()
    raise OfclError(
        f"the model '{name}' has parameters that nobody gives: a function or class gets the number "
        "of classes as num_classes, or an ofcl.models.ModelSize if it takes one argument"
    )


def _classes_parameter(function: Callable[..., Any]) -> str | None:
    """Names the parameter of a function that takes the number of classes; None: it has none."""
    if inspect.isclass(function) and getattr(function, "__init__", None) is nn.Module.__init__:
        return None  # it seems to take anything, and takes nothing
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    for name in CLASSES:
        if name in parameters:
            return name
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return CLASSES[0] if takes_any and not required_parameters(function) else None
