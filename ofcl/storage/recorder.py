"""The recorder of a running run: writes its events, each with its number."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from ofcl.errors import OfclError
from ofcl.events import Event, from_json, to_json
from ofcl.storage.atomic_files import explained
from ofcl.storage.run_directory import RunDirectory


class Recorder:
    """Writes the events of a running run, each with its number and the seconds so far."""

    def __init__(self, run: RunDirectory, events: list[Event], resumed: bool) -> None:
        self.events, self._path = events, run.path
        self._file = run.open_events()
        if resumed:
            self._write({"event": "resumed", "after": len(events)})

    def record(self, event: Event, seconds: float) -> None:
        """Appends an event."""
        self._write({"n": len(self.events), "seconds": round(seconds, 3), **to_json(event)})
        self.events.append(event)

    def sync(self) -> None:
        """Makes sure that what was written outlasts a power cut."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Ends the recording."""
        with contextlib.suppress(OSError):  # the disk may be full; what matters has been raised
            self._file.close()

    def _write(self, value: dict[str, Any]) -> None:
        with explained(self._path):
            self._file.write(json.dumps(value) + "\n")


def counted(run: RunDirectory, events: int) -> list[Event]:
    """The first events of a run, as many as its checkpoint knew of."""
    found = run.events()[:events]
    whole = all(event.get("n") == n for n, event in enumerate(found))
    if len(found) < events or not whole:
        raise OfclError(
            f"'{run.path / 'events.jsonl'}' has lost events: the checkpoint knew of {events}, "
            f"{len(found)} can be read. Restore the file from a backup, or run anew"
        )
    return [from_json(value) for value in found]
