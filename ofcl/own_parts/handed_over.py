"""Parts that somebody gave as Python objects: `ofcl.run(model=make_net)`.

A function or class of a module gets its path as a name, so that a run can be resumed, and other
processes can import it. Anything else (a lambda, an object, code of a notebook) is kept here for as
long as the process lives, under a name that begins with `python:`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ofcl.errors import OfclError
from ofcl.own_parts.kinds import HANDED

_PARTS: dict[tuple[str, str], Any] = {}  # by kind and name


def hand_over(kind: str, part: Any) -> str:
    """Returns the name by which settings can name a part.

    Args:
        kind: The kind of the part.
        part: The part; a string is a name already.
    """
    if isinstance(part, str):
        return part
    path = _importable(part)
    if path is not None:
        return path
    plain = getattr(part, "__qualname__", type(part).__qualname__).rpartition(".")[2]
    plain = "".join(c for c in plain if c.isalnum() or c == "_") or "part"
    name, number = f"{HANDED}{plain}", 2
    while _PARTS.setdefault((kind, name), part) is not part:
        name, number = f"{HANDED}{plain}-{number}", number + 1
    return name


def hand_over_as(kind: str, name: str, part: Any) -> None:
    """Keeps a part under a name that a run has given it before.

    Args:
        kind: The kind of the part.
        name: The name in the run's settings.
        part: The part.
    """
    _PARTS[kind, name] = part


def find_handed_over(kind: str, name: str) -> Any:
    """Finds a part that was handed over.

    Args:
        kind: The kind of the part.
        name: Its name, which begins with `python:`.

    Raises:
        OfclError: If nobody has handed it over in this process.
    """
    if (kind, name) not in _PARTS:
        raise OfclError(
            f"{kind} = '{name}' was given as a Python object, which is not here; give it again: "
            f"ofcl.resume(…, {kind}=…), ofcl.load(…, {kind}=…)"
        )
    return _PARTS[kind, name]


def handed_over(names: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Collects the parts that settings name and that were handed over, to send them elsewhere.

    Args:
        names: Settings by name.

    Returns:
        The parts by kind and name.
    """
    return {key: part for key, part in _PARTS.items() if names.get(key[0]) == key[1]}


def _importable(part: Any) -> str | None:
    """Returns the path from which an object can be imported again; None: it has none."""
    module, name = getattr(part, "__module__", None), getattr(part, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    return f"{module}:{name}" if found is part else None
