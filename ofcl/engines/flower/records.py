"""What is sent as Flower's records: the tensors as one piece of bytes, plain values as JSON.

The bytes are safetensors, which is read without running code; one piece travels faster than
hundreds.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

from safetensors.torch import load, save

from ofcl.errors import OfclError
from ofcl.state import State, flatten, unflatten

if TYPE_CHECKING:
    from flwr.app import RecordDict

EXTRA = "Flower is not installed: pip install 'ofcl[flower]'"


def as_records(state: State) -> RecordDict:
    """A state as records."""
    from flwr.app import ConfigRecord, RecordDict

    tensors, tree = flatten(state)
    return RecordDict(
        {"state": ConfigRecord({"tensors": save(tensors), "values": json.dumps(tree)})}
    )


def from_records(records: RecordDict) -> State:
    """The inverse of `as_records`; ValueError or KeyError where something else was sent."""
    sent = records.config_records["state"]
    tensors, values = sent["tensors"], sent["values"]
    if not isinstance(tensors, bytes) or not isinstance(values, str):
        raise ValueError("what was sent is no state")
    state: State = unflatten(load(tensors), json.loads(values))
    return state


def check_flower() -> None:
    """Refuses to go on without Flower, and keeps it from talking to anybody but us."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise OfclError(EXTRA) from None
    logging.getLogger("flwr").setLevel(logging.ERROR)
