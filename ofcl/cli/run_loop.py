"""Runs a run to its end, with progress and trackers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ofcl.assembly.dealing import Loader
from ofcl.cli.progress import view
from ofcl.cli.terminal import err_console, warn
from ofcl.data.named.catalogue import DATASETS
from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.events import Event
from ofcl.experiment import Run
from ofcl.report.trackers import Tracking, check_trackers, open_tracking
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory
from ofcl.uncertainty.perturbations import choose_perturbations


def drive(started: Run, quiet: bool, track: Sequence[str] = ()) -> Result:
    """Runs a run to its end, shows its progress, and gives its result.

    Args:
        started: The run; its events are shown and handed to trackers.
        quiet: Whether to show no progress.
        track: The names of trackers.
    """
    if started.fitted and not quiet:
        err_console.print(f"chosen for the data: {started.fitted}", highlight=False)
    if (line := started.participants.backbone) and not quiet:
        err_console.print(line, highlight=False, markup=False, soft_wrap=True)
    for warning in started.warnings:
        warn(warning)
    with (
        tracked(started, track) as trackers,
        view(started, started.settings.method, err_console, quiet) as shown,
    ):
        for event in started:
            shown.show(event)
            trackers.show(event)
    if not quiet:
        for line in started.participants.remarks():
            err_console.print(line, highlight=False, markup=False, soft_wrap=True)
    return started.result()


@contextmanager
def tracked(started: Run, names: Sequence[str]) -> Iterator[Trackers]:
    """Opens the trackers of a run, and closes them when the run ends or fails.

    Args:
        started: The run.
        names: The names of the trackers.
    """
    trackers = Trackers(started, names)
    try:
        yield trackers
    except BaseException:
        trackers.finish(None)
        raise
    trackers.finish(started.result())


class Trackers:
    """The trackers of a run; one that fails is dropped with a warning, and the run goes on.

    Args:
        started: The run.
        names: The names of the trackers.
    """

    def __init__(self, started: Run, names: Sequence[str]) -> None:
        self._open: list[Tracking] = []
        check_trackers(names)
        for name in names:
            assert started.directory is not None
            try:
                tracking = open_tracking(name, started.directory, started.settings, started.events)
            except Exception as error:  # of a network, a server, a disk
                warn(f"{name} cannot be used, and the run goes on without it: {error}")
            else:
                self._open.append(tracking)

    def show(self, event: Event) -> None:
        """Hands an event to every tracker.

        Args:
            event: The newest event of the run.
        """
        self._each(lambda tracking: tracking.show(event))

    def finish(self, result: Result | None) -> None:
        """Closes every tracker.

        Args:
            result: The result of the run, which trackers log; None: the run was stopped or has
                failed.
        """
        self._each(lambda tracking: tracking.finish(result))

    def _each(self, do: Callable[[Tracking], None]) -> None:
        """Calls a function (`do`) with every tracker; drops a tracker if the call fails."""
        for tracking in list(self._open):
            try:
                do(tracking)
            except Exception as error:  # of a network, a server, a disk
                self._open.remove(tracking)
                warn(f"{tracking.name} has failed, and the run goes on without it: {error}")


def complete(
    path: Path,
    settings: Settings,
    load: Loader,
    quiet: bool,
    track: Sequence[str] = (),
) -> Result:
    """Gives the result of a run: begins it, resumes it, or reads it if it is finished.

    Args:
        path: The run directory.
        settings: The run's settings.
        load: Loads the dataset that the settings name.
        quiet: Whether to show no progress.
        track: The names of trackers.
    """
    directory = RunDirectory(path)
    if not directory.started():
        return drive(Run(settings, out=path, load=load), quiet, track)
    check_same(directory, settings)
    return directory.result() or drive(Run.resume(path, tell=warn, load=load), quiet, track)


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
