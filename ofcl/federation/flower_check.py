"""Compares the Flower that is installed with what the adapters assume (`flower_version`).

Nothing here needs a network: modules are imported, names and signatures are looked at.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ofcl.federation import flower_version


def broken_assumptions() -> list[str]:
    """Compares the Flower that is installed with the one that the adapters are written for.

    Returns:
        One line for each assumption that does not hold; empty: the adapters fit.
    """
    flwr = importlib.import_module("flwr")
    lines = []
    if flwr.__version__ != flower_version.VERSION:
        lines.append(
            f"Flower {flwr.__version__} is installed; the adapters are for {flower_version.VERSION}"
        )
    for module, names in flower_version.NAMES.items():
        lines += _missing(module, names, _attributes)
    for path, parameters in flower_version.PARAMETERS.items():
        lines += _missing(path, parameters, _parameters)
    for path, attributes in flower_version.ATTRIBUTES.items():
        lines += _missing(path, attributes, _attributes)
    for path, fields in flower_version.FIELDS.items():
        lines += _missing(path, fields, _fields)
    for what, holds in BEHAVIOURS.items():
        lines += _not_holding(what, holds)
    return lines


def _resolve(path: str) -> Any:
    """Imports a module, or gives the object that a path like `module:Name.attribute` names."""
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        found = getattr(found, part)
    return found


def _attributes(path: str) -> Collection[str]:
    """Names the attributes of the module or class at a path (`_resolve`)."""
    return dir(_resolve(path))


def _parameters(path: str) -> Collection[str]:
    """Names the parameters of the function or class at a path (`_resolve`)."""
    return inspect.signature(_resolve(path)).parameters.keys()


def _fields(path: str) -> Collection[str]:
    """Names the fields of the protobuf message at a path (`_resolve`)."""
    return list(_resolve(path).DESCRIPTOR.fields_by_name)


def _missing(
    path: str, wanted: tuple[str, ...], known_by: Callable[[str], Collection[str]]
) -> list[str]:
    """Gives one line for each wanted name that the installed Flower does not have at a path.

    If there is nothing usable at the path, the one line says so.

    Args:
        path: A module, or an object in it as `module:Name.attribute`.
        wanted: The names that the adapters use.
        known_by: Takes the path, and gives the names that the installed Flower has there.
    """
    try:
        known = known_by(path)
    except Exception as error:  # whatever another version of Flower does when it is asked
        return [f"{path} cannot be used ({type(error).__name__}: {error})"]
    return [f"{path} has no '{name}'" for name in wanted if name not in known]


def _not_holding(what: str, holds: Callable[[], bool]) -> list[str]:
    """Gives one line if an assumed behaviour does not hold, or cannot be checked; else none.

    Args:
        what: The behaviour, in words.
        holds: Tells whether the installed Flower behaves in this way.
    """
    try:
        return [] if holds() else [f"it does not hold that {what}"]
    except Exception as error:  # whatever another version of Flower does when it is asked
        return [f"it cannot be seen that {what} ({type(error).__name__}: {error})"]


def _superlink_source() -> str:
    """Reads the source of the command that starts Flower's server."""
    return inspect.getsource(importlib.import_module("flwr.superlink.cli.flower_superlink"))


def _paths_are_guarded() -> bool:
    """Tells whether the paths for administrators and for parties begin as the guard assumes."""
    main = importlib.import_module("flwr.superlink.main")
    control = all(route.path.startswith("/v1/control/") for route in main.control_router.routes)
    fleet = all(route.path.startswith("/v1/fleet/") for route in main.fleet_router.routes)
    return control and fleet


def _server_options() -> bool:
    """Tells whether the command of Flower's server has all of `SERVER_OPTIONS`."""
    module = importlib.import_module("flwr.superlink.cli.flower_superlink")
    known = module._parse_args_run_superlink()._option_string_actions
    return all(option in known for option in flower_version.SERVER_OPTIONS)


def _grid_is_patient() -> bool:
    """Tells whether Flower's grid has a `node`, and a `max_time` for its retries."""
    grid = _resolve("flwr.superlink.grid:HttpGrid")(token="none")
    return (
        hasattr(grid._retry_invoker, "max_time")
        and hasattr(grid._retry_invoker, "should_giveup")
        and hasattr(grid, "node")
    )


def _identifiers_are_in_the_metadata() -> bool:
    """Tells whether a message's metadata keep its identifier where the adapters set it."""
    metadata = _resolve("flwr.app:Metadata")(
        run_id=0,
        message_id="its identifier",
        src_node_id=1,
        dst_node_id=2,
        reply_to_message_id="",
        group_id="",
        created_at=0.0,
        ttl=1.0,
        message_type="query.ofcl",
    )
    return bool(metadata.__dict__["_message_id"] == "its identifier")


def _task_identity_can_be_set() -> bool:
    """Tells whether Flower lets the adapters set the task, run and node of this process."""
    metaclass = type(_resolve("flwr.supercore.task_identity:TaskIdentity"))
    return all(
        getattr(metaclass, name).fset is not None for name in ("task_id", "run_id", "node_id")
    )


def _tolerances() -> bool:
    """Tells whether Flower's limits for clocks and heartbeats are the assumed ones."""
    constant = importlib.import_module("flwr.common.constant")
    seconds = (constant.SYSTEM_TIME_TOLERANCE, constant.TIMESTAMP_TOLERANCE)
    return seconds == (5, 300) and constant.HEARTBEAT_PATIENCE == 2


BEHAVIOURS: Mapping[str, Callable[[], bool]] = {
    "the server's app is made by flwr.superlink.main.create_app": lambda: (
        "from flwr.superlink.main import" in _superlink_source()
        and "create_app(" in _superlink_source()
    ),
    "the server's app is run by uvicorn.run": lambda: "uvicorn.run(" in _superlink_source(),
    "parties and administrators call paths of their own": _paths_are_guarded,
    "flower-superlink has the options that it is started with": _server_options,
    "HttpGrid has a node, and a time after which it gives up": _grid_is_patient,
    "a message's identifier is in its metadata as _message_id": _identifiers_are_in_the_metadata,
    "TaskIdentity's task, run and node can be set": _task_identity_can_be_set,
    "a clock may be 5 s ahead and 305 s behind, and one heartbeat in two be lost": _tolerances,
}
"""Assumed behaviours of Flower: each in words, with the function that checks it."""
