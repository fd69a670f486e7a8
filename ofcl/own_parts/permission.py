"""Permission to import code: a file or a server may name code, but only a person can allow it.

Settings that a person types, or hands over from Python, are that person's word. Settings that come
with a run directory, a model's bundle or from a federation's server are not: their code is imported
only if the person at this machine has named it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ofcl.errors import OfclError
from ofcl.own_parts.kinds import HANDED, SETTINGS, installed, is_path

DOWNLOADED = ("timm:", "hf:")
"""Begins the names of pretrained networks whose weights may be downloaded."""


def code_in(values: Mapping[str, Any]) -> dict[str, str]:
    """Lists the names of code that settings have: paths, and parts that were handed over.

    Args:
        values: Settings by name.

    Returns:
        The names by kind.
    """
    named = {kind: values.get(kind) for kind in SETTINGS}
    return {
        kind: name
        for kind, name in named.items()
        if isinstance(name, str) and (is_path(name) or name.startswith(HANDED))
    }


def check_allowed(values: Mapping[str, Any], allowed: Iterable[str], whose: str) -> None:
    """Raises an error if settings name code that nobody at this machine has allowed.

    Args:
        values: Settings by name, from a file or from elsewhere.
        allowed: The paths that the person at this machine has named.
        whose: Where the settings are from, for the message.

    Raises:
        OfclError: If code is named that is not among `allowed`.
    """
    known = set(allowed)
    for kind, name in code_in(values).items():
        if name in known or name.startswith(HANDED):  # what was handed over is here, or is not
            continue
        raise OfclError(
            f"{whose} uses code of its own, {kind} = '{name}', which would be run here. If you "
            f"trust it: --allow {name}"
        )


def check_allowed_at_party(values: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Raises an error if a server names code, or an installed part, that a party has not allowed.

    Args:
        values: The settings that the server has sent.
        allowed: The names that the party's own settings allow.

    Raises:
        OfclError: If a part is named that is not among `allowed`.
    """
    known = set(allowed)
    for kind in SETTINGS:
        name = values.get(kind)
        if not isinstance(name, str) or name in known:
            continue
        if name.startswith(DOWNLOADED):
            raise OfclError(
                f"the server asks for {kind} = '{name}', a pretrained network that this party has "
                f"not allowed. To allow it, start this party with --set allow={name}, or write it "
                "into `allow` of policy.toml; and say where its weights are with --set "
                "weights=FILE, unless they come from the hub"
            )
        if is_path(name) or name.startswith(HANDED) or name in installed(kind):
            raise OfclError(
                f"the server asks for {kind} = '{name}', which is code that this party has not "
                f"allowed. To allow it, start this party with --set allow={name}, or write it into "
                "`allow` of policy.toml"
            )
