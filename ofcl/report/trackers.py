"""Tracking a run: its numbers go to TensorBoard, MLflow or Weights & Biases as it runs.

All trackers log the same numbers at the same steps (`tracked_numbers`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from typing import Protocol

from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.events import Event
from ofcl.own_parts.lookup import find_function
from ofcl.report.tracked_numbers import Meter, Numbers, numbers_of_result
from ofcl.report.tracker_kinds import MLflow, TensorBoard, WeightsAndBiases
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory


class Tracker(Protocol):
    """A program or service to which the numbers of a run are logged."""

    def log(self, numbers: Numbers, step: int) -> None:
        """Logs the numbers of one step.

        Args:
            numbers: The numbers by name.
            step: The mini-batches that all clients have learned so far.
        """

    def close(self, failed: bool) -> None:
        """Ends the logging of a run.

        Args:
            failed: Whether the run was stopped before its end.
        """


TRACKERS: dict[str, Callable[[RunDirectory, dict[str, str], int], Tracker]] = {
    "tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WeightsAndBiases,
}  # fmt: skip
"""Every tracker by name; the extra to install is called the same."""


class Tracking:
    """Computes the numbers of a run from its events, and sends them to a tracker.

    Args:
        name: The tracker's name.
        tracker: The tracker.
        events: The events so far, if the run is resumed.
    """

    def __init__(self, name: str, tracker: Tracker, events: Iterable[Event] = ()) -> None:
        self.name, self._tracker, self._meter = name, tracker, Meter(events)

    def show(self, event: Event) -> None:
        """Logs the numbers that belong to an event; many events have none.

        Args:
            event: The event.
        """
        if numbers := self._meter.add(event):
            self._tracker.log(numbers, self._meter.step)

    def finish(self, result: Result | None) -> None:
        """Logs the numbers of the result, if there is one, and ends the logging.

        Args:
            result: The result; None: the run was stopped.
        """
        if result is not None:
            self._tracker.log(numbers_of_result(result), self._meter.step)
        self._tracker.close(failed=result is None)


def open_tracking(
    name: str, run: RunDirectory, settings: Settings, events: Iterable[Event] = ()
) -> Tracking:
    """Opens a tracker for a run.

    Args:
        name: The tracker's name: one of `TRACKERS`, or of an installed package.
        run: The directory of the run.
        settings: The settings of the run.
        events: The events so far, if the run is resumed.
    """
    values = {key: str(value) for key, value in settings.model_dump().items() if value is not None}
    past = list(events)
    tracker = find_function("tracker", name, TRACKERS)(run, values, Meter(past).step)
    return Tracking(name, tracker, past)


def check_trackers(names: Iterable[str]) -> None:
    """Raises an error if a name is not that of a tracker, or its package is not installed.

    Args:
        names: The names that a user gave.
    """
    for name in names:
        find_function("tracker", name, TRACKERS)
        if (
            name in TRACKERS and importlib.util.find_spec(name) is None
        ):  # the names are those of the packages
            raise OfclError(f"{name} is not installed: pip install 'ofcl[{name}]'")
