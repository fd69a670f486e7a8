"""Letting runs run, with progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ofcl.cli.progress import view
from ofcl.cli.terminal import err_console, warn
from ofcl.config import Settings
from ofcl.data.catalogue import DATASETS
from ofcl.data.dataset import Dataset
from ofcl.errors import OfclError
from ofcl.experiment import Run
from ofcl.perturb import choose_perturbations
from ofcl.results import Result
from ofcl.runs import RunDirectory


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
    """Refuses to go on with a run that was made with other settings; another device may be."""
    there = directory.settings()
    for name, value in _asked(settings).items():
        if getattr(there, name) != value:
            raise OfclError(
                f"'{directory.path}' was made with {name} = {getattr(there, name)!r}, not "
                f"{value!r}; give another directory with --out"
            )


def _asked(settings: Settings) -> dict[str, Any]:
    """What settings ask for, as a run directory has it; without what only a run finds out."""
    asked = dict(settings)
    asked["perturbations"] = choose_perturbations(settings.perturbations)
    if settings.dataset not in DATASETS and Path(settings.dataset).expanduser().exists():
        asked["dataset"] = str(Path(settings.dataset).expanduser().resolve())
    found = [name for name in ("model", "optimizer", "lr") if asked[name] in ("auto", None)]
    if "tasks" not in settings.model_fields_set:
        found.append("tasks")
    return {name: value for name, value in asked.items() if name not in {*found, "device"}}
