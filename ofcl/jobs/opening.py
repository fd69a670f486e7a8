"""A run that is begun, gone on with, or only read: whatever its directory asks for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ofcl.assembly.dealing import Loader
from ofcl.data.named.catalogue import DATASETS
from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.experiment import Run
from ofcl.own_parts.permission import code_in
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import InUse, RunDirectory
from ofcl.uncertainty.perturbations import choose_perturbations

PATIENCE = 10.0  # seconds in which a worker whose command was killed has surely ended


def open_run(
    path: Path,
    settings: Settings,
    load: Loader,
    tell: Callable[[str], None],
    patience: float = PATIENCE,
) -> Run | Result:
    """Begins a run, goes on with it, or reads its result if it is finished.

    Code of the user's own that the settings name may be imported: the directory's settings are
    compared with them first.

    Args:
        path: The run directory.
        settings: The run's settings.
        load: Loads the dataset that the settings name.
        tell: Is given each line for the user.
        patience: How many seconds to wait for another process that uses the directory.

    Raises:
        OfclError: If the directory was made with other settings, or the run cannot work.
    """
    directory = RunDirectory(path)
    if not directory.started():
        return Run(settings, out=path, load=load, tell=tell)
    check_same(directory, settings)
    if (result := directory.result()) is not None:
        return result
    allowed, until = code_in(settings.model_dump()).values(), time.monotonic() + patience
    while True:
        try:
            return Run.resume(path, tell=tell, load=load, allow=allowed, ray=settings.ray)
        except InUse:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def check_same(
    directory: RunDirectory, settings: Settings, but_for: Iterable[str] = ("device",)
) -> None:
    """Refuses a run directory that was made with other settings.

    Args:
        directory: The run directory.
        settings: The settings that the user asks for.
        but_for: The names of settings that may differ.

    Raises:
        OfclError: If a setting differs that is not in `but_for`, and that a run does not choose by
            itself.
    """
    there = directory.settings()
    asked = {name: v for name, v in _asked(settings).items() if name not in but_for}
    for name, value in asked.items():
        if getattr(there, name) != value:
            raise OfclError(
                f"'{directory.path}' was made with {name} = {getattr(there, name)!r}, not "
                f"{value!r}; give another directory with --out"
            )


def _asked(settings: Settings) -> dict[str, Any]:
    """Prepares a user's settings for comparison with those saved in a run directory.

    Values are written as a run saves them, for example the dataset's path in full. Settings that
    the run chooses by itself, for example those fitted to the data, are left out.

    Args:
        settings: The settings that the user asks for.

    Returns:
        The values to compare, by the setting's name.
    """
    asked = dict(settings)
    asked["perturbations"] = choose_perturbations(settings.perturbations)
    if settings.dataset not in DATASETS and Path(settings.dataset).expanduser().exists():
        asked["dataset"] = str(Path(settings.dataset).expanduser().resolve())
    auto = ("model", "optimizer", "lr", "threads")
    found = ["fit", *settings.fit, *(name for name in auto if asked[name] in ("auto", None))]
    if settings.clients == 1 or settings.stagger:
        found += ["closing_round", "min_clients", "previous"]
    if "tasks" not in settings.model_fields_set:
        found.append("tasks")
    return {name: value for name, value in asked.items() if name not in found}
