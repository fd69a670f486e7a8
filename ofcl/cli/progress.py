"""Showing a run while it goes: a bar in a terminal, a plain line for each task elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ofcl.events import Appeared, Evaluated, Event, Learned, Round, Skipped
from ofcl.experiment import Run

SECONDS_BETWEEN_LINES = 30
RECENT = 50  # mini-batches


T = TypeVar("T")


def track(items: Sequence[T], what: str) -> Iterable[T]:
    """Goes through items that take their time, with a bar in a terminal; else a line or two."""
    console = Console(stderr=True)
    if len(items) < 2:
        return items
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TimeRemainingColumn())  # fmt: skip
        return _with_bar(items, what, Progress(*columns, console=console, transient=True))
    return _with_lines(items, what, console)


def _with_bar(items: Sequence[T], what: str, progress: Progress) -> Iterator[T]:
    with progress:
        yield from progress.track(items, description=what)


def _with_lines(items: Sequence[T], what: str, console: Console) -> Iterator[T]:
    """A line every half a minute, so that a log shows that something goes on."""
    told = time.monotonic()
    for n, item in enumerate(items):
        if time.monotonic() - told > SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            console.print(f"{what}: {n}/{len(items)}", highlight=False, soft_wrap=True)
        yield item


class View(Protocol):
    """Something that is shown the events."""

    def show(self, event: Event) -> None:
        """Shows one."""


class Tally:
    """What the events so far come to, in the words of a progress line."""

    def __init__(self, run: Run) -> None:
        self.tasks, self.clients = run.settings.tasks, run.settings.clients
        self.task = self.rounds = self.batches = self.classes = self.skipped = 0
        self.ended: dict[int, int] = {}
        self._loss = self._samples = 0.0
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT)
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
                self._recent.append((event.correct, event.samples))
            case Round():
                self.rounds = event.round
            case Evaluated():
                self.ended[event.task] = self.ended.get(event.task, 0) + 1
            case Appeared():
                self.classes += 1
            case Skipped():
                self.skipped += 1

    @property
    def recent_accuracy(self) -> float:
        """The share of right predictions on the newest mini-batches, before they were learned."""
        samples = sum(n for _, n in self._recent)
        return 100 * sum(right for right, _ in self._recent) / max(samples, 1)

    @property
    def loss(self) -> float:
        """The mean loss in the newest task."""
        return self._loss / self._samples if self._samples else float("nan")


class Bar:
    """A bar with task, loss, rounds and the time left."""

    def __init__(self, run: Run, name: str, progress: Progress) -> None:
        self._tally, self._name, self._progress = Tally(run), name, progress
        self._live = run.batches is None
        done = self._tally.batches
        self._row = progress.add_task(name, total=run.batches, completed=done)

    def show(self, event: Event) -> None:
        """Moves the bar."""
        self._tally.add(event)
        tally = self._tally
        if self._live:
            text = f"{self._name:<5} {_live_words(tally)}"
        else:
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


class LiveLines:
    """A plain line every half a minute for a stream without an end, and one for whatever is odd."""

    def __init__(self, run: Run, name: str, console: Console) -> None:
        self._tally, self._name, self._console = Tally(run), name, console
        self._told = time.monotonic()

    def show(self, event: Event) -> None:
        """Writes a line if it is time."""
        self._tally.add(event)
        if isinstance(event, Skipped):
            self._print(f"left out: {event.problem}")
        elif isinstance(event, Appeared):
            self._print(f"client {event.client}: a new class, '{event.label}'")
        elif time.monotonic() - self._told > SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            self._print(_live_words(self._tally))

    def _print(self, text: str) -> None:
        self._console.print(f"{self._name}: {text}", highlight=False, markup=False, soft_wrap=True)


def _live_words(tally: Tally) -> str:
    return (
        f"{tally.batches} mini-batches  {tally.classes} classes  accuracy of the last {RECENT} "
        f"{tally.recent_accuracy:.1f}  rounds {tally.rounds}  left out {tally.skipped}"
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
        yield (
            Lines(run, name, console) if run.batches is not None else LiveLines(run, name, console)
        )
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
