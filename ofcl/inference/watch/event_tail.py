"""The sums of a run's events, which are read on where the last look ended."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from typing import Any

from ofcl.evaluation.results import Summary
from ofcl.events import Appeared, Evaluated, Event, Learned, Round, from_json
from ofcl.storage.run_directory import RunDirectory

MOST_ROUNDS = 240  # rounds whose course is kept
MOST_LABELS = 100  # labels of a client that are kept


class EventTail:
    """Adds up the events of a run that goes on.

    After a `resumed` line, or when the file was put aside, everything is read anew.

    Args:
        run: The run directory.

    Attributes:
        summary: The sums, from which the result so far is computed.
        seconds: How long the run has taken up to its last event.
        rounds: Of the last rounds: number, seconds of the run, accuracy of the samples since the
            round before, in percent (None: there were none).
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run, self._path = run, run.path / "events.jsonl"
        self._reset()

    def _reset(self) -> None:
        """Forgets everything."""
        self.summary, self.seconds = Summary(), 0.0
        self.rounds: deque[tuple[int, float, float | None]] = deque(maxlen=MOST_ROUNDS)
        self.labels: dict[int, list[str]] = {}  # that a client's stream has brought
        self.classes: dict[int, set[int]] = {}  # of each client's last test
        self._samples = self._correct = 0  # since the last round
        self._inode = self._offset = 0
        self._last = -1  # the number of the last event

    def look(self) -> None:
        """Reads the events that were written since the last look."""
        try:
            at = self._path.stat()
        except OSError:
            return
        if at.st_ino != self._inode or at.st_size < self._offset:
            self._read_all()
            return
        for value in self._new_lines():
            if value.get("event") == "resumed":
                self._read_all()
                return
            self._take(value)

    def _read_all(self) -> None:
        """Reads all events that count."""
        self._reset()
        with self._path.open("rb") as file:
            self._inode = os.fstat(file.fileno()).st_ino
            size = file.seek(0, os.SEEK_END)
            back = min(size, 2**20)
            file.seek(size - back)
            tail = file.read(back)
            self._offset = size - back + tail.rfind(b"\n") + 1
        earlier = self._run.earlier_events()
        self.summary, self._last = earlier.summary(), earlier.count - 1
        for value in self._run.iterate_events():
            self._take(value)

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        """Yields the whole lines that were written since the last look."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                try:
                    value = json.loads(line)
                except ValueError:
                    continue
                if isinstance(value, dict) and isinstance(value.get("event"), str):
                    yield value

    def _take(self, value: dict[str, Any]) -> None:
        """Adds an event, unless it was added already."""
        number = value.get("n", self._last + 1)
        if number <= self._last:
            return
        self._last, self.seconds = number, value.get("seconds", self.seconds)
        try:
            event = from_json(value)
        except (KeyError, TypeError):  # of a later version
            return
        self.summary.add(event)
        self._note(event)

    def _note(self, event: Event) -> None:
        """Keeps the course of rounds, and the classes of clients."""
        match event:
            case Learned():
                self._samples += event.samples
                self._correct += event.correct
            case Round():
                right = 100 * self._correct / self._samples if self._samples else None
                self.rounds.append((event.round, self.seconds, right))
                self._samples = self._correct = 0
            case Appeared():
                found = self.labels.setdefault(event.client, [])
                if len(found) < MOST_LABELS:
                    found.append(event.label)
            case Evaluated():
                tested = {row[0] for task in event.global_test for row in task if row[0] >= 0}
                self.classes[event.client] = tested
