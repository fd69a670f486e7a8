"""Writing the events of a run while it goes, and reading them back when it is resumed."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from ofcl.errors import OfclError
from ofcl.events import Event, from_json, to_json
from ofcl.storage import event_files
from ofcl.storage.atomic_files import explained
from ofcl.storage.run_directory import RunDirectory


class Recorder:
    """Writes the events of a run while it goes, each with its number and the seconds so far.

    Args:
        run: The directory of the run; events are appended to its `events.jsonl`.
        count: The number of events so far, which numbers the next one; 0 for a new run.
        resumed: Whether to write a line `resumed` first, so that readers drop the events that the
            killed process wrote after its last checkpoint.
    """

    def __init__(self, run: RunDirectory, count: int, resumed: bool) -> None:
        self._count, self._path, self._run = count, run.path, run
        self._file = run.open_events()
        if resumed:
            self._write({"event": "resumed", "after": count})

    def record(self, event: Event, seconds: float) -> None:
        """Appends an event to the file.

        Args:
            event: The event.
            seconds: How long the run has taken so far, over all its processes.
        """
        self._write({"n": self._count, "seconds": round(seconds, 3), **to_json(event)})
        self._count += 1

    def sync(self) -> None:
        """Waits until all events are on the disk and outlast a power cut."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def put_aside(self, safe: int) -> None:
        """Begins another file if this one is large, and deletes the earliest files.

        Args:
            safe: So many events are in both checkpoints of the run.
        """
        if (self._path / event_files.NEWEST).stat().st_size < event_files.LARGE:
            return
        with explained(self._path):
            self._file.close()
            event_files.put_aside(self._path)
            self._file = self._run.open_events()
            event_files.sum_up(self._path, safe)

    def close(self) -> None:
        """Closes the file of events."""
        with contextlib.suppress(OSError):  # `record` has raised an error already
            self._file.close()

    def _write(self, value: dict[str, Any]) -> None:
        """Writes one line of JSON."""
        with explained(self._path):
            self._file.write(json.dumps(value) + "\n")


def first_events(run: RunDirectory, events: int) -> Iterator[Event]:
    """Yields the first events of a run, read from its event files, one at a time.

    Those that are summed up already (`RunDirectory.earlier_events`) are left out.

    Args:
        run: The directory of the run.
        events: How many events to yield, for example as many as a checkpoint knew of.

    Raises:
        OfclError: If the file has fewer events, or one in between is missing.
    """
    found = run.earlier_events().count
    for value in run.iterate_events():
        if found == events or value.get("n") != found:
            break
        yield from_json(value)
        found += 1
    if found < events:
        raise OfclError(
            f"'{run.path / 'events.jsonl'}' has lost events: the checkpoint knew of {events}, "
            f"{found} can be read. Restore the file from a backup, or run anew"
        )
