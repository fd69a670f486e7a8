"""States as the payload of a task: the tensors as one piece of bytes, plain values as JSON.

The bytes are in the safetensors format, which is read without running code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from safetensors.torch import load, save

from ofcl.state import Flat, State, flatten, unflatten

Payload = Mapping[str, Any]


def as_payload(state: State | Flat) -> dict[str, bytes | str]:
    """Converts a state to the payload of a task.

    Args:
        state: The state, flattened or not.

    >>> from_payload(as_payload({"round": 3}))
    {'round': 3}
    """
    tensors, tree = flatten(state)
    return {"tensors": save(tensors), "values": json.dumps(tree)}


def from_payload(payload: Payload) -> State:
    """Reads a state from the payload that `as_payload` has made of it.

    Args:
        payload: The payload; more than these two values is ignored.

    Raises:
        KeyError: If a value is missing.
        ValueError: If the values are not of the right types.
    """
    tensors, values = payload["tensors"], payload["values"]
    if not isinstance(tensors, bytes) or not isinstance(values, str):
        raise ValueError("what was sent is no state")
    state: State = unflatten(load(tensors), json.loads(values))
    return state
