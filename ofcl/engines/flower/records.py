"""States as Flower's records: the tensors as one piece of bytes, plain values as JSON.

The bytes are in the safetensors format, which is read without running code. One piece of bytes
travels faster than hundreds.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

from safetensors.torch import load, save

from ofcl.errors import OfclError
from ofcl.state import Flat, State, flatten, unflatten

if TYPE_CHECKING:
    from flwr.app import RecordDict

EXTRA = "Flower is not installed: pip install 'ofcl[flower]'"


def as_records(state: State | Flat) -> RecordDict:
    """Converts a state to Flower's records.

    Args:
        state: The state, flattened or not.
    """
    from flwr.app import ConfigRecord, RecordDict

    tensors, tree = flatten(state)
    return RecordDict(
        {"state": ConfigRecord({"tensors": save(tensors), "values": json.dumps(tree)})}
    )


def from_records(records: RecordDict) -> State:
    """Reads a state from the records that `as_records` has made of it.

    Args:
        records: The records.

    Raises:
        KeyError: If a record is missing.
        ValueError: If the records are not of the right types.
    """
    record = records.config_records["state"]
    tensors, values = record["tensors"], record["values"]
    if not isinstance(tensors, bytes) or not isinstance(values, str):
        raise ValueError("what was sent is no state")
    state: State = unflatten(load(tensors), json.loads(values))
    return state


def check_flower() -> None:
    """Checks that Flower is installed, and turns off its telemetry and its search for updates.

    Raises:
        OfclError: If Flower is not installed.
    """
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise OfclError(EXTRA) from None
    logging.getLogger("flwr").setLevel(logging.ERROR)
