"""Progress: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
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

from ofcl.data.options import Counted
from ofcl.errors import printable
from ofcl.events import Appeared, Evaluated, Event, Halted, Skipped
from ofcl.experiment import Run
from ofcl.jobs.tally import RECENT, Tally

SECONDS_BETWEEN_LINES = 30


T = TypeVar("T")


def track(items: Counted[T], what: str) -> Iterable[T]:
    """Yields items one by one, and shows how many are done.

    Args:
        items: The items, each of which may take long.
        what: The name of the work, shown beside the progress.
    """
    console = Console(stderr=True)
    if len(items) < 2:
        return items
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TimeRemainingColumn())  # fmt: skip
        return _with_bar(items, what, Progress(*columns, console=console, transient=True))
    return _with_lines(items, what, console)


def _with_bar(items: Counted[T], what: str, progress: Progress) -> Iterator[T]:
    """Yields items, and moves a bar.

    Args:
        items: The items.
        what: The name of the work, shown beside the bar.
        progress: The display to which the bar is added.
    """
    with progress:
        yield from progress.track(items, total=len(items), description=what)


def _with_lines(items: Counted[T], what: str, console: Console) -> Iterator[T]:
    """Yields items, and prints a line every half a minute, so that a log shows progress.

    Args:
        items: The items.
        what: The name of the work, with which each line begins.
        console: The console to which lines are printed.
    """
    printed = time.monotonic()
    for n, item in enumerate(items):
        if time.monotonic() - printed > SECONDS_BETWEEN_LINES:
            printed = time.monotonic()
            console.print(f"{what}: {n}/{len(items)}", highlight=False, soft_wrap=True)
        yield item


class View(Protocol):
    """Shows a run to the user, event by event."""

    def show(self, event: Event) -> None:
        """Shows what an event changes.

        Args:
            event: The newest event of the run.
        """


class Bar:
    """Shows a run as a bar with task, loss, rounds, how steps are computed, and the time left.

    Args:
        run: The run.
        name: The name of the run in the bar.
        progress: The display of bars to which this one is added.
    """

    def __init__(self, run: Run, name: str, progress: Progress) -> None:
        self._tally, self._name, self._progress = Tally(run), name, progress
        self._endless = run.batches is None
        steps = run.participants.steps
        self._path = f"  {steps.path}" if steps is not None else ""
        done = self._tally.batches
        self._row = progress.add_task(name, total=run.batches, completed=done)

    def show(self, event: Event) -> None:
        """Moves the bar.

        Args:
            event: The newest event of the run.
        """
        self._tally.add(event)
        tally = self._tally
        if self._endless:
            text = f"{self._name:<5} {_live_words(tally)}{self._path}"
        else:
            text = (
                f"{self._name:<5} task {tally.task + 1}/{tally.tasks}  loss {tally.loss:.2f}  "
                f"rounds {tally.rounds}{self._path}"
            )
        if isinstance(event, Halted):
            line = printable(halted_words(event))
            self._progress.console.print(line, highlight=False, markup=False)
        self._progress.update(self._row, description=text, completed=tally.batches)


class Lines:
    """Prints a line each time that all clients have finished a task.

    Args:
        run: The run.
        name: The name of the run in the lines.
        console: The console to which lines are printed.
    """

    def __init__(self, run: Run, name: str, console: Console) -> None:
        self._tally, self._name, self._console, self._run = Tally(run), name, console, run

    def show(self, event: Event) -> None:
        """Prints a line if all clients have now finished a task.

        Args:
            event: The newest event of the run.
        """
        tally = self._tally
        tally.add(event)
        if not isinstance(event, Evaluated) or event.task < tally.earlier:
            return
        if tally.ended[event.task] == tally.clients:
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
    """Prints progress of endless streams: a line every half a minute.

    New classes and samples that are left out get a line of their own, at once.

    Args:
        run: The run.
        name: The name of the run in the lines.
        console: The console to which lines are printed.
    """

    def __init__(self, run: Run, name: str, console: Console) -> None:
        self._tally, self._name, self._console, self._run = Tally(run), name, console, run
        self._printed = time.monotonic()

    def show(self, event: Event) -> None:
        """Prints a line if half a minute has passed, a class is new or a sample is left out.

        Args:
            event: The newest event of the run.
        """
        self._tally.add(event)
        if isinstance(event, Skipped):
            self._print(f"left out: {event.problem}")
        elif isinstance(event, Halted):
            self._print(halted_words(event))
        elif isinstance(event, Appeared):
            who = self._run.participants.name_of(event.client)
            self._print(f"{who}: a new class, '{event.label}'")
        elif time.monotonic() - self._printed > SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            self._print(_live_words(self._tally))

    def _print(self, text: str) -> None:
        """Prints a line with the name of the run."""
        line = printable(f"{self._name}: {text}")
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def halted_words(event: Halted) -> str:
    """Says which client waits, and for what.

    Args:
        event: The event of the client's stream.
    """
    return f"{event.problem}. It waits until this is mended; the others go on"


def _live_words(tally: Tally) -> str:
    """Sums up a run on endless streams in a line: what its `Tally` has counted so far."""
    return (
        f"{tally.batches} mini-batches  {tally.classes} classes  accuracy of the last {RECENT} "
        f"{tally.recent_accuracy:.1f}  rounds {tally.rounds}  left out {tally.skipped}"
    )


class Silence:
    """Shows nothing of a run, for `--quiet`."""

    def show(self, event: Event) -> None:
        """Shows nothing.

        Args:
            event: The newest event of the run.
        """


@contextmanager
def view(run: Run, name: str, console: Console, quiet: bool) -> Iterator[View]:
    """Chooses how to show a run: as a bar in a terminal, as lines elsewhere, or not at all.

    Args:
        run: The run.
        name: The name of the run.
        console: The console on which it is shown.
        quiet: Whether to show nothing.
    """
    if quiet:
        yield Silence()
    elif not console.is_terminal:
        endless = run.batches is None
        yield LiveLines(run, name, console) if endless else Lines(run, name, console)
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
