"""Putting settings together from layers: protocol, dataset, settings file, command line."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from ofcl.errors import OfclError, nearest, unknown
from ofcl.own_parts import kinds
from ofcl.own_parts.handed_over import hand_over
from ofcl.settings.rules import check_combination
from ofcl.settings.schema import Settings


def make_settings(*layers: dict[str, Any]) -> Settings:
    """Puts settings together and checks them.

    A setting that no layer names gets the value that the paper sets for the dataset; else that of
    the protocol; else the default.

    Args:
        layers: Dictionaries of values by the setting's name; later ones override earlier ones.
            Parts of your own (`model`, `loss` and others) may be Python objects.

    Raises:
        OfclError: If a name is unknown, a value is not accepted, or two values exclude each other.

    >>> make_settings({"protocol": "published"}, {"mixing": 1.0}).mixing
    1.0
    """
    values: dict[str, Any] = {}
    for layer in layers:
        values |= layer
    for name in values:
        if name not in Settings.model_fields:
            raise unknown("setting", name, Settings.model_fields)
    for kind in kinds.SETTINGS:
        if not isinstance(values.get(kind), str | bool | None):  # `augment` was a truth value once
            values[kind] = hand_over(kind, values[kind])
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise OfclError(_first_problem(error)) from None
    check_combination(settings)
    return settings


def _first_problem(error: ValidationError) -> str:
    """Says in one line, of the first value that is wrong, what was given and what is accepted."""
    problem = error.errors()[0]
    name = str(problem["loc"][0])
    given = problem["input"]
    if problem["type"] == "unknown_part":
        return str(problem["msg"])
    if problem["type"] == "literal_error":
        # pydantic spells the accepted values as "'a', 'b' or 'c'".
        accepted = problem["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
        return f"unknown {name} '{given}'; {nearest(str(given), accepted)}"
    return f"{name} = {given!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"
