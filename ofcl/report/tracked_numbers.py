"""The numbers of a run that trackers log, from its events; a step is a mini-batch of any client."""

from __future__ import annotations

from collections.abc import Iterable

from ofcl.evaluation.metrics import accuracies, mean
from ofcl.evaluation.results import Result
from ofcl.events import Evaluated, Event, Learned, Round, TaskEnded

Numbers = dict[str, float]

END = ("A", "F", "global_A", "global_F", "balanced_accuracy", "validation_A", "anytime_accuracy",
       "seconds")  # fmt: skip
"""The values of a result that are logged."""


class Meter:
    """Adds up the events of a run, and computes the numbers that trackers log.

    Args:
        events: The events so far, if the run is resumed.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.step = 0  # mini-batches of all clients
        self._sent = self._received = 0
        self._loss = self._correct = self._samples = 0.0  # since the last round
        for event in events:
            self.add(event)

    def add(self, event: Event) -> Numbers:
        """Counts an event.

        Args:
            event: The event.

        Returns:
            The numbers to be logged with the event, by name; empty for most events.
        """
        match event:
            case Learned():
                self.step += event.batches
                self._loss += event.loss
                self._correct += event.correct
                self._samples += event.samples
            case Round():
                self._sent += event.bytes_sent
                self._received += event.bytes_received
                return {**self._along_stream(), "rounds": float(event.round),
                        "bytes_sent": float(self._sent),
                        "bytes_received": float(self._received)}  # fmt: skip
            case TaskEnded():
                self._sent += event.bytes_sent
                self._received += event.bytes_received
                sent = {"bytes_sent": float(self._sent)} if event.bytes_sent else {}
                return {**sent, "bytes_received": float(self._received)}
            case Evaluated():
                return {**self._along_stream(), **_evaluated(event)}
        return {}

    def _along_stream(self) -> Numbers:
        """Returns loss and accuracy, before learning, on the mini-batches since the last call.

        The result is empty if no mini-batch was learned since then.
        """
        if not self._samples:
            return {}
        numbers = {
            "stream/loss": self._loss / self._samples,
            "stream/accuracy": 100 * self._correct / self._samples,
        }
        self._loss = self._correct = self._samples = 0.0
        return numbers


def _evaluated(event: Evaluated) -> Numbers:
    """Returns a client's accuracy on each task that was tested, and the mean over these tasks."""
    row = accuracies(event.test, len(event.test))
    numbers = {f"client {event.client}/task {t}": a for t, a in enumerate(row) if a is not None}
    over_tasks = mean(row)
    if over_tasks is not None:
        numbers[f"client {event.client}/accuracy"] = over_tasks
    return numbers


def numbers_of_result(result: Result) -> Numbers:
    """Returns the numbers of a run's result that are logged, by name, without unknown ones.

    Args:
        result: The result of a run.
    """
    values = {name: getattr(result, name) for name in END}
    return {name: float(value) for name, value in values.items() if value is not None}
