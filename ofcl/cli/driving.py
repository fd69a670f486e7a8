"""Letting runs run, with progress."""

from __future__ import annotations

from pathlib import Path

from ofcl.cli.progress import view
from ofcl.cli.terminal import err_console, warn
from ofcl.config import Settings
from ofcl.data.dataset import Dataset
from ofcl.errors import OfclError
from ofcl.experiment import Run
from ofcl.results import Result
from ofcl.runs import RunDirectory

_FOUND_OUT = {"dataset", "tasks", "model", "optimizer", "lr", "device", "perturbations"}


def drive(started: Run, quiet: bool) -> Result:
    """Runs to the end with progress."""
    for warning in started.warnings:
        warn(warning)
    with view(started, started.settings.method, err_console, quiet) as shown:
        for event in started:
            shown.show(event)
    return started.result()


def complete(path: Path, settings: Settings, dataset: Dataset | None, quiet: bool) -> Result:
    """Begins a run, goes on with one that was stopped, or reads one that is finished."""
    directory = RunDirectory(path)
    if not directory.started():
        return drive(Run(settings, dataset, path), quiet)
    check_same(directory, settings)
    return directory.result() or drive(Run.resume(path, dataset, tell=warn), quiet)


def check_same(directory: RunDirectory, settings: Settings) -> None:
    """Refuses to go on with a run that was made with other settings."""
    there = directory.settings()
    for name in Settings.model_fields.keys() - _FOUND_OUT:
        if getattr(there, name) != getattr(settings, name):
            raise OfclError(
                f"'{directory.path}' was made with {name} = {getattr(there, name)!r}, not "
                f"{getattr(settings, name)!r}; give another directory with --out"
            )
