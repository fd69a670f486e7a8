"""Runs as they lie on disk, finished or not: found, read, and grouped by experiment."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.events import from_json
from ofcl.report.grouping import experiment_key
from ofcl.report.naming import ExperimentName, name_experiments
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.run_directory import RunDirectory


@dataclass(frozen=True)
class RunView:
    """One recorded run: its settings, its events and its result so far."""

    directory: RunDirectory
    settings: Settings
    known_labels: tuple[str, ...]  # when the run began
    form: State  # of its samples; empty: not recorded
    made_with: State
    result: Result
    finished: bool

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The events as plain values, each with the `seconds` of the run.

        They are read when they are asked for: a table of hundreds of runs needs none.
        """
        return self.directory.events()

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the classes, with those that have appeared in streams."""
        appeared = [event["label"] for event in self.events_of("appeared")]
        return tuple(dict.fromkeys([*self.known_labels, *appeared]))

    @property
    def path(self) -> Path:
        """The path of the run directory."""
        return self.directory.path

    def events_of(self, kind: str) -> list[dict[str, Any]]:
        """Returns the run's events of one kind.

        Args:
            kind: The event's name in `events.jsonl`, such as `learned`.
        """
        return [event for event in self.events if event["event"] == kind]


@dataclass(frozen=True)
class Experiment:
    """Runs of one experiment: their settings are the same, except for those in `MAY_DIFFER`."""

    named: ExperimentName
    runs: list[RunView]

    @property
    def name(self) -> str:
        """The name that no other of the experiments has that were read together."""
        return self.named.whole


def find_runs(paths: Iterable[str | Path]) -> list[RunDirectory]:
    """Finds the run directories at paths and below them.

    Args:
        paths: Run directories, or folders of them.

    Raises:
        OfclError: If a path does not exist, or if neither it nor a folder below is a run directory.
    """
    found = []
    for path in map(Path, paths):
        if not path.exists():
            raise OfclError(f"no such directory: '{path}'")
        below = sorted(_runs_below(path))
        if not below:
            raise OfclError(f"no run in '{path}': a run directory has a settings.toml")
        found += below
    return [RunDirectory(path) for path in dict.fromkeys(found)]


def _runs_below(path: Path) -> Iterator[Path]:
    """Yields the run directories at a path and below it."""
    for folder, inside, files in os.walk(path):
        if "settings.toml" in files:
            inside.clear()  # files in a run that goes on come and go while one looks
            yield Path(folder)


def read_run(directory: RunDirectory) -> RunView:
    """Reads a run; the result of an unfinished one is computed from its events so far.

    Args:
        directory: The directory of the run.
    """
    description, settings = directory.description(), directory.settings()
    result = directory.result()
    finished = result is not None
    if result is None:
        events = directory.events()
        summary = directory.earlier_events().summary()
        for event in events:
            summary.add(from_json(event))
        result = summary.result(
            clients=settings.clients,
            tasks=None if settings.streams else directory.earlier_tasks() + settings.tasks,
            seconds=events[-1]["seconds"] if events else 0.0,
            joint=settings.joint,
        )
    return RunView(
        directory=directory,
        settings=settings,
        known_labels=tuple(description.get("labels", ())),
        form=description.get("form", {}),
        made_with=description.get("made_with", {}),
        result=result,
        finished=finished,
    )


def read_experiments(paths: Iterable[str | Path]) -> list[Experiment]:
    """Reads the runs at paths and below them, and groups them by experiment.

    Args:
        paths: Run directories, or folders of them.

    Returns:
        The experiments in the order of their first runs' paths; the runs of each by seed.
    """
    groups: dict[str, list[RunView]] = defaultdict(list)
    for directory in find_runs(paths):
        run = read_run(directory)
        groups[experiment_key(run.settings)].append(run)
    names = name_experiments([runs[0].settings for runs in groups.values()])
    return [
        Experiment(names[key], sorted(runs, key=lambda run: run.settings.seed))
        for key, runs in groups.items()
    ]
