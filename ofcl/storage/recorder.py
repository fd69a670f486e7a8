"""Recording the events of a running run, and reading them back when it is resumed."""

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
    """Writes the events of a running run, each with its number and the seconds so far.

    Args:
        run: the directory of the run, to whose `events.jsonl` is appended.
        events: the events so far (of a resumed run), to which new ones are added.
        resumed: write a line `resumed` first, so that readers drop events after the checkpoint.
    """

    def __init__(self, run: RunDirectory, events: list[Event], resumed: bool) -> None:
        self.events, self._path = events, run.path
        self._file = run.open_events()
        if resumed:
            self._write({"event": "resumed", "after": len(events)})

    def record(self, event: Event, seconds: float) -> None:
        """Appends an event.

        Args:
            event: the event.
            seconds: how long the run has taken so far, over all its processes.
        """
        self._write({"n": len(self.events), "seconds": round(seconds, 3), **to_json(event)})
        self.events.append(event)

    def sync(self) -> None:
        """Waits until all events are on the disk, where they outlast a power cut."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file of events."""
        with contextlib.suppress(OSError):  # `record` has raised an error already
            self._file.close()

    def _write(self, value: dict[str, Any]) -> None:
        with explained(self._path):
            self._file.write(json.dumps(value) + "\n")


def counted(run: RunDirectory, events: int) -> list[Event]:
    """Reads the events that a run's checkpoint has counted.

    Args:
        run: the directory of the run.
        events: how many events there were when the checkpoint was written.

    Returns:
        The first `events` events.

    Raises:
        OfclError: if the file has fewer, or one in between is missing.
    """
    found = run.events()[:events]
    whole = all(event.get("n") == n for n, event in enumerate(found))
    if len(found) < events or not whole:
        raise OfclError(
            f"'{run.path / 'events.jsonl'}' has lost events: the checkpoint knew of {events}, "
            f"{len(found)} can be read. Restore the file from a backup, or run anew"
        )
    return [from_json(value) for value in found]
