"""Showing a run while it goes: a bar in a terminal, a plain line for each task elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ofcl.events import Evaluated, Event, Learned, Round
from ofcl.experiment import Run


class View(Protocol):
    """Something that is shown the events."""

    def show(self, event: Event) -> None:
        """Shows one."""


class Tally:
    """What the events so far come to, in the words of a progress line."""

    def __init__(self, run: Run) -> None:
        self.tasks, self.clients = run.settings.tasks, run.settings.clients
        self.task = self.rounds = self.batches = 0
        self.ended: dict[int, int] = {}
        self._loss = self._samples = 0.0
        for event in run.events:  # of a run that is resumed
            self.add(event)

    def add(self, event: Event) -> None:
        """Counts an event."""
        match event:
            case Learned():
                if event.task > self.task:
                    self.task, self._loss, self._samples = event.task, 0.0, 0.0
                self.batches += event.batches
                self._loss, self._samples = self._loss + event.loss, self._samples + event.samples
            case Round():
                self.rounds = event.round
            case Evaluated():
                self.ended[event.task] = self.ended.get(event.task, 0) + 1

    @property
    def loss(self) -> float:
        """The mean loss in the newest task."""
        return self._loss / self._samples if self._samples else float("nan")


class Bar:
    """A bar with task, loss, rounds and the time left."""

    def __init__(self, run: Run, name: str, progress: Progress) -> None:
        self._tally, self._name, self._progress = Tally(run), name, progress
        done = self._tally.batches
        self._row = progress.add_task(name, total=run.batches, completed=done)

    def show(self, event: Event) -> None:
        """Moves the bar."""
        self._tally.add(event)
        tally = self._tally
        text = (
            f"{self._name:<5} task {tally.task + 1}/{tally.tasks}  loss {tally.loss:.2f}  "
            f"rounds {tally.rounds}"
        )
        self._progress.update(self._row, description=text, completed=tally.batches)


class Lines:
    """One plain line when every client has ended a task."""

    def __init__(self, run: Run, name: str, console: Console) -> None:
        self._tally, self._name, self._console, self._run = Tally(run), name, console, run

    def show(self, event: Event) -> None:
        """Writes a line if a task has ended."""
        tally = self._tally
        tally.add(event)
        if isinstance(event, Evaluated) and tally.ended[event.task] == tally.clients:
            result = self._run.result()
            rows = [matrix[event.task] for matrix in result.accuracy]
            seen = [value for row in rows for value in row if value is not None]
            self._console.print(
                f"{self._name}: task {event.task + 1}/{tally.tasks} ended, "
                f"{tally.batches}/{self._run.batches} mini-batches, loss {tally.loss:.2f}, "
                f"accuracy {sum(seen) / max(len(seen), 1):.1f}, rounds {tally.rounds}, "
                f"{result.seconds:.0f} s",
                highlight=False,
                soft_wrap=True,
            )


class Silence:
    """Shows nothing."""

    def show(self, event: Event) -> None:
        """Does nothing."""


@contextmanager
def view(run: Run, name: str, console: Console, quiet: bool) -> Iterator[View]:
    """The view that fits the console."""
    if quiet:
        yield Silence()
    elif not console.is_terminal:
        yield Lines(run, name, console)
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console) as progress:
            yield Bar(run, name, progress)
