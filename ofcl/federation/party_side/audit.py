"""The audit file of a party: every field that has left it, and how many bytes.

One line of JSON for every message, written before the message leaves. It has the names and sizes of
the fields, not their values.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from ofcl.errors import OfclError
from ofcl.federation.party_side.audit_files import FILE, put_aside
from ofcl.state import Flat, State, flatten, nbytes


def fields_of(message: State | Flat) -> list[dict[str, Any]]:
    """Lists every field of a message, with its type and its bytes.

    Args:
        message: The message, flattened or not.

    Returns:
        For each field its path ("field"), its type ("type") and its size ("bytes"): the bytes of a
        tensor, or of the value as JSON.

    >>> fields_of({"reply": {"learned": 12}})
    [{'field': 'reply.learned', 'type': 'int', 'bytes': 2}]
    """
    tensors, tree = flatten(message)
    fields: list[dict[str, Any]] = []

    def walk(value: Any, path: str) -> None:
        if path in tensors:
            tensor = tensors[path]
            kind = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
            fields.append({"field": path, "type": kind, "bytes": nbytes({path: tensor})})
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}.{key}".lstrip("."))
        else:
            kind = f"list of {len(value)}" if isinstance(value, list) else type(value).__name__
            fields.append({"field": path, "type": kind, "bytes": len(json.dumps(value))})

    walk(tree, "")
    return fields


class Audit:
    """A party's audit file.

    Args:
        folder: The party's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / FILE

    def write(self, message: State | Flat, **about: Any) -> int:
        """Appends a line about a message, and waits until it is on the disk.

        Args:
            message: The message that is about to leave.
            **about: Further entries of the line: the kind of message, the run, the exchange.

        Returns:
            The bytes of all fields of the message.

        Raises:
            OfclError: If it cannot be written: then the message must not leave.
        """
        fields = fields_of(message)
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            **about,
            "bytes": sum(field["bytes"] for field in fields),
            "fields": fields,
        }
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OfclError(
                f"the audit file cannot be written ({error}), and nothing leaves this party "
                f"without it. Make '{self._path}' a file that this account can write to, on a "
                "disk with room; the party goes on by itself"
            ) from None
        with contextlib.suppress(OSError):  # the line is written; the file only gets larger
            put_aside(self._folder)
        return int(line["bytes"])
