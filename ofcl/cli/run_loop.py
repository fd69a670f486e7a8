"""Runs a run to its end, with progress and trackers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ofcl.assembly.dealing import Loader
from ofcl.cli.progress import view
from ofcl.cli.terminal import err_console, warn
from ofcl.evaluation.results import Result
from ofcl.events import Event
from ofcl.experiment import Run
from ofcl.jobs.opening import open_run
from ofcl.report.trackers import Tracking, check_trackers, open_tracking
from ofcl.settings.schema import Settings


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
    if (steps := started.participants.steps) is not None and not quiet:
        err_console.print(steps.in_words(), highlight=False, markup=False, soft_wrap=True)
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
    opened = open_run(path, settings, load, warn)
    return opened if isinstance(opened, Result) else drive(opened, quiet, track)
