"""TensorBoard, MLflow, and Weights & Biases: where the numbers of a run can be logged.

The name that a tracker has given to a run is saved in the run directory (`tracked.json`), so that a
resumed run goes on in the same place.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from ofcl.report.tracked_numbers import Numbers
from ofcl.storage.run_directory import RunDirectory


class TensorBoard:
    """Logs to event files in the run directory, for `tensorboard --logdir`.

    Args:
        run: The directory of the run.
        settings: The settings of the run as text.
        step: The step at which the run begins, or is resumed.
    """

    def __init__(self, run: RunDirectory, settings: dict[str, str], step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Later steps, logged after the last checkpoint, are done and logged again.
        purge = step + 1 if step else None
        self._writer = SummaryWriter(str(run.path / "tensorboard"), purge_step=purge)
        rows = "\n".join(f"| {key} | {value} |" for key, value in settings.items())
        self._writer.add_text("settings", f"| setting | value |\n| --- | --- |\n{rows}")

    def log(self, numbers: Numbers, step: int) -> None:
        """Logs the numbers of one step.

        Args:
            numbers: The numbers by name.
            step: The mini-batches that all clients have learned so far.
        """
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self, failed: bool) -> None:
        """Closes the event file.

        Args:
            failed: Not used: event files do not say how a run ended.
        """
        self._writer.close()


class MLflow:
    """Logs to the server in MLFLOW_TRACKING_URI; by default to `mlflow.db` in the current folder.

    A resumed run goes on where it was logged before, unless MLFLOW_TRACKING_URI says otherwise.

    Args:
        run: The directory of the run.
        settings: The settings of the run as text.
        step: The step at which the run begins, or is resumed.
    """

    def __init__(self, run: RunDirectory, settings: dict[str, str], step: int) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        here = f"sqlite:///{Path('mlflow.db').resolve()}"
        store = os.environ.get("MLFLOW_TRACKING_URI") or _saved_name(run.path, "mlflow_uri") or here
        self._client = MlflowClient(store)
        self._run = _saved_name(run.path, "mlflow")
        self._logged: dict[str, int] = {}  # the last step of each number that was logged before
        if not self._run:
            experiment = self._client.get_experiment_by_name("ofcl")
            number = (
                experiment.experiment_id if experiment else self._client.create_experiment("ofcl")
            )
            self._run = self._client.create_run(number, run_name=run.path.name).info.run_id
            _save_names(run.path, mlflow=self._run, mlflow_uri=store)
            params = [Param(key, value[:500]) for key, value in settings.items()]
            self._client.log_batch(self._run, params=params)
        else:
            self._client.update_run(self._run, status="RUNNING")
            for name in self._client.get_run(self._run).data.metrics:
                history = self._client.get_metric_history(self._run, name)
                self._logged[name] = max(metric.step for metric in history)

    def log(self, numbers: Numbers, step: int) -> None:
        """Logs the numbers of one step, except those that were logged before the run was resumed.

        Args:
            numbers: The numbers by name.
            step: The mini-batches that all clients have learned so far.
        """
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new = {name: v for name, v in numbers.items() if step > self._logged.get(name, -1)}
        metrics = [Metric(name, value, now, step) for name, value in new.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, failed: bool) -> None:
        """Ends the run at the server.

        Args:
            failed: Whether the run ends as killed instead of finished.
        """
        self._client.set_terminated(self._run, "KILLED" if failed else "FINISHED")


class WeightsAndBiases:
    """Logs to the project `ofcl` of Weights & Biases.

    With WANDB_MODE=offline, everything stays in the run directory.

    Args:
        run: The directory of the run.
        settings: The settings of the run as text.
        step: Not used; Weights & Biases knows the steps of a resumed run.
    """

    def __init__(self, run: RunDirectory, settings: dict[str, str], step: int) -> None:
        import wandb

        saved = _saved_name(run.path, "wandb")
        self._run = wandb.init(
            project="ofcl",
            id=saved or None,
            resume="allow" if saved else None,
            name=run.path.name,
            dir=str(run.path),
            config=settings,
            settings=wandb.Settings(console="off", quiet=True),
        )
        _save_names(run.path, wandb=self._run.id)

    def log(self, numbers: Numbers, step: int) -> None:
        """Logs the numbers of one step.

        Args:
            numbers: The numbers by name.
            step: The mini-batches that all clients have learned so far.
        """
        self._run.log(numbers, step=step)

    def close(self, failed: bool) -> None:
        """Ends the run at Weights & Biases.

        Args:
            failed: Whether the run ends as failed instead of finished.
        """
        self._run.finish(exit_code=1 if failed else 0)


def _saved_name(folder: Path, tracker: str) -> str:
    """Reads a name that `_save_names` has saved; empty if the run has none from this tracker.

    Args:
        folder: The run directory.
        tracker: The key of the name in `tracked.json`.
    """
    path = folder / "tracked.json"
    return str(json.loads(path.read_text()).get(tracker, "")) if path.exists() else ""


def _save_names(folder: Path, **names: str) -> None:
    """Adds names to `tracked.json`; names that are there already under other keys stay.

    Args:
        folder: The run directory.
        names: The names that trackers gave to the run, by key.
    """
    path = folder / "tracked.json"
    saved = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**saved, **names}) + "\n")
