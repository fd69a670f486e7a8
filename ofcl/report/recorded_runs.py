"""Runs as the report sees them: what is on disk, of finished runs and of those that go on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofcl.evaluation.results import Result, summarise
from ofcl.events import from_json
from ofcl.report.comparison import experiment, find_runs, telling
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.run_directory import RunDirectory


@dataclass(frozen=True)
class RunView:
    """One run: what it is of, what happened, and what it has come to so far."""

    directory: RunDirectory
    settings: Settings
    labels: tuple[str, ...]
    form: State  # of its samples; empty: not recorded
    made_with: State
    events: list[dict[str, Any]]  # as plain values, each with the `seconds` of the run
    result: Result
    finished: bool

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.directory.path

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Its events of one kind."""
        return [event for event in self.events if event["event"] == kind]


@dataclass(frozen=True)
class Experiment:
    """Runs with the same settings but for the seed."""

    name: str
    runs: list[RunView]


def read_run(directory: RunDirectory) -> RunView:
    """Reads what there is of a run."""
    told, settings, events = directory.description(), directory.settings(), directory.events()
    result = directory.result()
    finished = result is not None
    if result is None:
        result = summarise(
            map(from_json, events),
            clients=settings.clients,
            tasks=None if settings.streams else settings.tasks,
            seconds=events[-1]["seconds"] if events else 0.0,
        )
    appeared = [event["label"] for event in events if event["event"] == "appeared"]
    labels = dict.fromkeys([*told.get("labels", ()), *appeared])
    return RunView(
        directory=directory,
        settings=settings,
        labels=tuple(labels),
        form=told.get("form", {}),
        made_with=told.get("made_with", {}),
        events=events,
        result=result,
        finished=finished,
    )


def read_experiments(paths: Iterable[str | Path]) -> list[Experiment]:
    """The runs among these paths and below them, by experiment, in the order of their names."""
    groups: dict[str, list[RunView]] = defaultdict(list)
    for directory in find_runs(paths):
        run = read_run(directory)
        groups[experiment(run.settings)].append(run)
    some = [runs[0].settings for runs in groups.values()]
    return [
        Experiment(name, sorted(runs, key=lambda run: run.settings.seed))
        for name, runs in zip(names(some), groups.values(), strict=True)
    ]


def names(settings: Sequence[Settings]) -> list[str]:
    """What tells experiments apart, in words: the method, and what else differs."""
    told = [name for name in telling(settings) if name != "method"]
    differing = [n for n in told if len({str(getattr(s, n)) for s in settings}) > 1]
    return [
        ", ".join([s.method, *(f"{name} {getattr(s, name)}" for name in differing)])
        for s in settings
    ]
