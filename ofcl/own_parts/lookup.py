"""Finding a part by its name: of this package, of an installed one, by a path, or handed over."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any

from ofcl.errors import OfclError, unknown
from ofcl.own_parts.handed_over import find_handed_over
from ofcl.own_parts.kinds import HANDED, installed, is_path


def find_part(kind: str, name: str, table: Mapping[str, Any]) -> Any:
    """Finds a part.

    Args:
        kind: The kind of the part, one of `kinds.GROUPS`.
        name: The name of a part in `table`; the name under which an installed package announces
            one; a path `module:name`; or the name of a part that was handed over.
        table: The parts of this package by name.

    Raises:
        OfclError: If there is no such part, or its code cannot be imported.
    """
    if name in table:
        return table[name]
    if name.startswith(HANDED):
        return find_handed_over(kind, name)
    if is_path(name):
        return _import(kind, name)
    if (point := installed(kind).get(name)) is not None:
        return _import(kind, point.value)
    raise unknown(kind, name, [*table, *installed(kind)])


def find_function(kind: str, name: str, table: Mapping[str, Any]) -> Any:
    """Finds a part that is called: a function, a class, or an object such as an `nn.Module`.

    Args:
        kind: The kind of the part, one of `kinds.GROUPS`.
        name: The name of the part, as for `find_part`.
        table: The parts of this package by name.

    Raises:
        OfclError: If there is no such part, or it cannot be called.
    """
    part = find_part(kind, name, table)
    if not callable(part):
        raise OfclError(f"the {kind} '{name}' must be a function or a class; it is a "
                        f"{type(part).__name__}")  # fmt: skip
    return part


def path_of(kind: str, name: str) -> str | None:
    """Returns the path to the code of a part; None if the part has none or is of this package.

    Args:
        kind: The kind of the part.
        name: The name of the part.
    """
    if is_path(name):
        return name
    point = installed(kind).get(name)
    return None if point is None else point.value


def _import(kind: str, path: str) -> Any:
    """Imports what a path names.

    Modules beside the user's files are found too: the current folder is searched last.

    Args:
        kind: The kind of the part, for the message.
        path: `module:name`; the name may have dots.
    """
    module_name, _, names = path.partition(":")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module_name)
        for name in names.split("."):
            found = getattr(found, name)
    except ModuleNotFoundError as error:
        raise OfclError(
            f"{kind} = '{path}': there is no module '{error.name}' here; install its package, or "
            "start from the folder that has it"
        ) from None
    except AttributeError:
        raise OfclError(f"{kind} = '{path}': the module {module_name} has no '{names}'") from None
    except Exception as error:  # whatever a stranger's module raises when it is imported
        raise OfclError(
            f"{kind} = '{path}' cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return found


def required_parameters(function: Any) -> int | None:
    """Counts the positional parameters that a function must be given; None: nobody knows.

    >>> required_parameters(lambda logits, y, scale=1.0: logits)
    2

    Args:
        function: A function, a class, or an object that can be called.
    """
    try:
        parameters = inspect.signature(_code_of(function)).parameters.values()
    except (TypeError, ValueError):  # of some builtins
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


def takes(function: Any, *values: Any, **named: Any) -> bool:
    """Says whether something can be called with such arguments; True if nobody knows.

    >>> takes(lambda logits, y: logits, 1, 2), takes(lambda logits, y: logits, 1, 2, 3)
    (True, False)

    Args:
        function: A function, a class, or an object that can be called.
        values: Any values, as many as there are arguments without a name.
        named: Any values by the names of the other arguments.
    """
    try:
        inspect.signature(_code_of(function)).bind(*values, **named)
    except TypeError:
        return False
    except ValueError:  # of some builtins
        return True
    return True


def _code_of(function: Any) -> Any:
    """Returns what tells the parameters: of a module of PyTorch, `forward`; else the thing itself.

    Args:
        function: A function, a class, or an object that can be called.
    """
    forward = None if inspect.isclass(function) else getattr(function, "forward", None)
    return forward if callable(forward) else function
