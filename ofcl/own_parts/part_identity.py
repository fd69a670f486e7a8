"""The identity of a part: where its code is from, its version, and a checksum of the code.

A run writes down the identity of each part of a user's own. It goes on only with the same ones.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Mapping
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import CodeType
from typing import Any

from ofcl.errors import OfclError
from ofcl.own_parts.handed_over import find_handed_over
from ofcl.own_parts.kinds import HANDED, SETTINGS
from ofcl.own_parts.lookup import find_part, path_of


def identities(values: Mapping[str, Any]) -> dict[str, str]:
    """Describes the parts of a user's own that settings name: one line for each kind.

    Args:
        values: Settings by name.

    Returns:
        By kind: the path, the package's version if it has one, and a checksum of the source file.
    """
    found = {}
    for kind in SETTINGS:
        name = values.get(kind)
        if not isinstance(name, str):
            continue
        if name.startswith(HANDED):
            found[kind] = f"{name} sha256:{_checksum(find_handed_over(kind, name))}"
        elif (path := path_of(kind, name)) is not None:
            find_part(kind, path, {})  # its module is loaded now
            module = path.partition(":")[0]
            found[kind] = f"{path}{_version(module)} sha256:{_checksum(sys.modules[module])}"
    return found


def check_identities(saved: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Raises an error if a part is not the one that was used before.

    Args:
        saved: The identities that were written down.
        values: Settings by name.

    Raises:
        OfclError: If the code, or its version, is another one now.
    """
    now = identities(values)
    for kind, before in saved.items():
        if now.get(kind) != before:
            raise OfclError(
                f"the {kind} is not the one of this run: it was {before}, and is "
                f"{now.get(kind, 'not there')} now. Restore the code, or begin a new run"
            )


def _version(module: str) -> str:
    """Returns a space and the version of the package that a module is of; empty if it has none."""
    for distribution in _distributions().get(module.partition(".")[0], ()):
        return f" {distribution}=={version(distribution)}"
    return ""


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    """Lists the installed packages by the names of their modules."""
    return packages_distributions()


def _checksum(part: Any) -> str:
    """Computes a short checksum of the code of a module, function, class or object."""
    return hashlib.sha256(_code(part)).hexdigest()[:16]


def _code(part: Any) -> bytes:
    """Returns bytes that change with the code of a part: its source or, without one, its bytecode.

    Args:
        part: A module, a function, a class, or an object, of which the class counts.
    """
    file = getattr(part, "__file__", None)
    if inspect.ismodule(part):
        return Path(file).read_bytes() if file else part.__name__.encode()
    shown = part if inspect.isfunction(part) or inspect.isclass(part) else type(part)
    code = getattr(shown, "__code__", None)
    if isinstance(code, CodeType):  # the lines around a lambda do not belong to it
        constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
        return code.co_code + repr(constants).encode()
    try:
        return inspect.getsource(shown).encode()
    except (OSError, TypeError):
        return shown.__qualname__.encode()
