"""Trackers: the events of a run as numbers in TensorBoard, MLflow or Weights & Biases.

All log the same numbers at the same steps; a step is a mini-batch of any client. What a tracker
calls the run is kept in the run directory (`tracked.json`), so that a resumed run goes on there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from ofcl.errors import OfclError, unknown
from ofcl.evaluation.metrics import accuracies, mean
from ofcl.evaluation.results import Result
from ofcl.events import Evaluated, Event, Learned, Round, TaskEnded
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory

Numbers = dict[str, float]

END = ("A", "F", "global_A", "global_F", "balanced_accuracy", "validation_A", "anytime_accuracy",
       "seconds")  # fmt: skip
"""What is logged of a result."""


class Meter:
    """What events come to: numbers to be logged, now and then."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.step = 0  # mini-batches of all clients
        self._sent = self._received = 0
        self._loss = self._correct = self._samples = 0.0  # since the last round
        for event in events:  # of a run that is resumed
            self.add(event)

    def add(self, event: Event) -> Numbers:
        """Counts an event; gives the numbers that are due with it."""
        match event:
            case Learned():
                self.step += event.batches
                self._loss, self._correct = self._loss + event.loss, self._correct + event.correct
                self._samples += event.samples
            case Round():
                self._sent += event.bytes_sent
                self._received += event.bytes_received
                return {**self._stream(), "rounds": float(event.round),
                        "bytes_sent": float(self._sent),
                        "bytes_received": float(self._received)}  # fmt: skip
            case TaskEnded():
                self._received += event.bytes_received
                return {"bytes_received": float(self._received)}
            case Evaluated():
                return {**self._stream(), **self._evaluated(event)}
        return {}

    def _stream(self) -> Numbers:
        """How mini-batches went before they were learned, since this was last asked."""
        if not self._samples:
            return {}
        numbers = {
            "stream/loss": self._loss / self._samples,
            "stream/accuracy": 100 * self._correct / self._samples,
        }
        self._loss = self._correct = self._samples = 0.0
        return numbers

    def _evaluated(self, event: Evaluated) -> Numbers:
        row = accuracies(event.test, len(event.test))
        numbers = {f"client {event.client}/task {t}": a for t, a in enumerate(row) if a is not None}
        over_tasks = mean(row)
        if over_tasks is not None:
            numbers[f"client {event.client}/accuracy"] = over_tasks
        return numbers


class Tracker(Protocol):
    """Where numbers go."""

    def log(self, numbers: Numbers, step: int) -> None:
        """Logs numbers of one step."""

    def close(self, failed: bool) -> None:
        """Ends it."""


class Tracking:
    """A run and its tracker."""

    def __init__(self, name: str, tracker: Tracker, events: Iterable[Event] = ()) -> None:
        self.name, self._tracker, self._meter = name, tracker, Meter(events)

    def show(self, event: Event) -> None:
        """Logs what is due with an event."""
        if numbers := self._meter.add(event):
            self._tracker.log(numbers, self._meter.step)

    def finish(self, result: Result | None) -> None:
        """Logs the result; None: the run was stopped."""
        if result is not None:
            values = {name: getattr(result, name) for name in END}
            end = {name: float(value) for name, value in values.items() if value is not None}
            self._tracker.log(end, self._meter.step)
        self._tracker.close(failed=result is None)


def open_tracking(
    name: str, run: RunDirectory, settings: Settings, events: Iterable[Event] = ()
) -> Tracking:
    """A tracker by name for a run; `events` are those of a run that is resumed."""
    values = {key: str(value) for key, value in settings.model_dump().items() if value is not None}
    past = list(events)
    tracker = TRACKERS[name](run, values, Meter(past).step)
    return Tracking(name, tracker, past)


def check_trackers(names: Iterable[str]) -> None:
    """Refuses what is not a tracker, or not installed."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if importlib.util.find_spec(name) is None:  # the packages are called as we call them
            raise OfclError(f"{name} is not installed: pip install 'ofcl[{name}]'")


class TensorBoard:
    """Event files in the run directory, for `tensorboard --logdir`."""

    def __init__(self, run: RunDirectory, settings: dict[str, str], step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # What was logged behind this step is done, and logged, again.
        purge = step + 1 if step else None
        self._writer = SummaryWriter(str(run.path / "tensorboard"), purge_step=purge)
        rows = "\n".join(f"| {key} | {value} |" for key, value in settings.items())
        self._writer.add_text("settings", f"| setting | value |\n| --- | --- |\n{rows}")

    def log(self, numbers: Numbers, step: int) -> None:
        """Logs numbers of one step."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self, failed: bool) -> None:
        """Ends it."""
        self._writer.close()


class MLflow:
    """A run of the tracking server in MLFLOW_TRACKING_URI; by default the file `mlflow.db` here."""

    def __init__(self, run: RunDirectory, settings: dict[str, str], step: int) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        here = f"sqlite:///{Path('mlflow.db').resolve()}"
        store = os.environ.get("MLFLOW_TRACKING_URI") or _known(run.path, "mlflow_uri") or here
        self._client = MlflowClient(store)
        self._run = _known(run.path, "mlflow")
        self._logged: dict[str, int] = {}  # the last step of each number that is there already
        if not self._run:
            found = self._client.get_experiment_by_name("ofcl")
            where = found.experiment_id if found else self._client.create_experiment("ofcl")
            self._run = self._client.create_run(where, run_name=run.path.name).info.run_id
            _remember(run.path, mlflow=self._run, mlflow_uri=store)
            named = [Param(key, value[:500]) for key, value in settings.items()]
            self._client.log_batch(self._run, params=named)
        else:
            self._client.update_run(self._run, status="RUNNING")
            for name in self._client.get_run(self._run).data.metrics:
                history = self._client.get_metric_history(self._run, name)
                self._logged[name] = max(metric.step for metric in history)

    def log(self, numbers: Numbers, step: int) -> None:
        """Logs numbers of one step."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new = {name: v for name, v in numbers.items() if step > self._logged.get(name, -1)}
        named = [Metric(name, value, now, step) for name, value in new.items()]
        self._client.log_batch(self._run, metrics=named)

    def close(self, failed: bool) -> None:
        """Ends it."""
        self._client.set_terminated(self._run, "KILLED" if failed else "FINISHED")


class WeightsAndBiases:
    """A run of the project `ofcl`; WANDB_MODE=offline keeps it in the run directory."""

    def __init__(self, run: RunDirectory, settings: dict[str, str], step: int) -> None:
        import wandb

        known = _known(run.path, "wandb")
        self._run = wandb.init(
            project="ofcl",
            id=known or None,
            resume="allow" if known else None,
            name=run.path.name,
            dir=str(run.path),
            config=settings,
            settings=wandb.Settings(console="off", quiet=True),
        )
        _remember(run.path, wandb=self._run.id)

    def log(self, numbers: Numbers, step: int) -> None:
        """Logs numbers of one step."""
        self._run.log(numbers, step=step)

    def close(self, failed: bool) -> None:
        """Ends it."""
        self._run.finish(exit_code=1 if failed else 0)


def _known(folder: Path, tracker: str) -> str:
    """What a tracker called this run when it was begun; empty: it is new to it."""
    path = folder / "tracked.json"
    return str(json.loads(path.read_text()).get(tracker, "")) if path.exists() else ""


def _remember(folder: Path, **names: str) -> None:
    path = folder / "tracked.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **names}) + "\n")


TRACKERS: dict[str, Callable[[RunDirectory, dict[str, str], int], Tracker]] = {
    "tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WeightsAndBiases,
}  # fmt: skip
"""Every tracker by name; the extra to install is called the same."""
