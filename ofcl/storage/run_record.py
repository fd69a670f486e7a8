"""The events of a run so far: summed up, and written to the run directory if there is one."""

from __future__ import annotations

from collections import deque

from ofcl.evaluation.results import Summary
from ofcl.events import Event
from ofcl.state import State
from ofcl.storage.checkpoint import Checkpoint, save_checkpoint
from ofcl.storage.recorder import Recorder, first_events
from ofcl.storage.run_directory import RunDirectory


class RunRecord:
    """The events of a run so far: their number, their summary, and how long they took.

    Args:
        directory: The run directory, to which events and checkpoints are written; None: nothing is
            written.

    Attributes:
        summary: The sums of the events, from which the result is computed.
        seconds: How long the run has taken, over all its processes.
    """

    def __init__(self, directory: RunDirectory | None) -> None:
        self.summary, self.seconds = Summary(), 0.0
        self._directory, self._count = directory, 0
        self._recorder: Recorder | None = None
        self._keep, self._kept = True, list[Event]()
        self._saved: deque[int] = deque(maxlen=2)  # events before the last two checkpoints

    def go_back_to(self, checkpoint: Checkpoint) -> None:
        """Reads the events before a checkpoint from the run directory, and sums them up.

        Args:
            checkpoint: The checkpoint from which a run goes on.
        """
        assert self._directory is not None
        self.summary = self._directory.earlier_events().summary()
        for event in first_events(self._directory, checkpoint.events):
            self.summary.add(event)
        self._count, self.seconds = checkpoint.events, checkpoint.seconds

    def begin(self, resumed: bool, keep: bool) -> None:
        """Opens the run directory's file of events.

        Args:
            resumed: Whether the run goes on after a stop.
            keep: Whether to keep all events: in memory if there is no run directory. Else early
                ones are summed up and deleted when there are many.
        """
        self._keep = keep
        if self._directory is not None:
            self._recorder = Recorder(self._directory, self._count, resumed)

    def add(self, event: Event, seconds: float) -> None:
        """Writes an event to the run directory, and adds it to the summary.

        Args:
            event: The event.
            seconds: How long the run has taken so far, over all its processes.
        """
        self.seconds = seconds
        if self._recorder is not None:
            self._recorder.record(event, seconds)
        elif self._keep:
            self._kept.append(event)
        self.summary.add(event)
        self._count += 1

    def events(self) -> list[Event]:
        """Lists the events so far: of a run directory those written, else those kept in memory."""
        if self._directory is None:
            return list(self._kept)
        return list(first_events(self._directory, self._count))

    def is_open(self) -> bool:
        """Tells whether events are written to a run directory, so that checkpoints can be too."""
        return self._recorder is not None

    def save(self, state: State) -> None:
        """Writes a checkpoint to the run directory, after all events so far are on the disk.

        Args:
            state: The state of the run after the last event.
        """
        assert self._directory is not None
        assert self._recorder is not None
        self._recorder.sync()
        checkpoint = Checkpoint(self._count, self.seconds, state)
        save_checkpoint(self._directory.checkpoints, checkpoint)
        if self._count not in self._saved:
            self._saved.append(self._count)
        if not self._keep and len(self._saved) == self._saved.maxlen:
            self._recorder.put_aside(self._saved[0])

    def close(self) -> None:
        """Closes the file of events."""
        if self._recorder is not None:
            self._recorder.close()
