"""Progress of several runs at once: a bar for each in a terminal, a line for each elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from ofcl.cli.progress import SECONDS_BETWEEN_LINES
from ofcl.errors import printable
from ofcl.jobs.work import Ended, Progress, Report, Told, Work
from ofcl.report.formats import number
from ofcl.storage.run_directory import RunDirectory


class JobsView(Protocol):
    """Shows several runs to the user, report by report."""

    def show(self, name: str, work: Work, report: Report) -> None:
        """Shows what a report changes.

        Args:
            name: The name of the run.
            work: The run.
            report: The newest report of it.
        """


class JobBars:
    """Shows a bar for each run that goes on, and one for all.

    Args:
        total: The number of runs.
        bars: The display of bars.
    """

    def __init__(self, total: int, bars: Bars) -> None:
        self._bars, self._rows = bars, dict[str, int]()
        self._told = set[str]()  # lines that several runs have in common are printed once
        self._all = bars.add_task("all runs", total=total)

    def show(self, name: str, work: Work, report: Report) -> None:
        """Moves the bars, or prints a line.

        Args:
            name: The name of the run.
            work: The run.
            report: The newest report of it.
        """
        match report:
            case Progress():
                if name not in self._rows:
                    self._rows[name] = self._bars.add_task(printable(name))
                self._bars.update(self._rows[name], total=report.all_batches,  # type: ignore[arg-type]
                                  completed=report.batches)  # fmt: skip
            case Told() if report.line not in self._told:
                self._told.add(report.line)
                self._print(f"{name}: {report.line}")
            case Ended():
                if (row := self._rows.pop(name, None)) is not None:
                    self._bars.remove_task(row)  # type: ignore[arg-type]
                self._bars.advance(self._all)
                self._print(end_of_run(name, work, report))

    def _print(self, text: str) -> None:
        """Prints a line above the bars."""
        self._bars.console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


class JobLines:
    """Prints a line for each run that has ended, and every half a minute how far all are.

    Args:
        total: The number of runs.
        console: The console to which lines are printed.
    """

    def __init__(self, total: int, console: Console) -> None:
        self._total, self._console, self._ended = total, console, 0
        self._going, self._printed = dict[str, Progress](), time.monotonic()
        self._told = set[str]()  # lines that several runs have in common are printed once

    def show(self, name: str, work: Work, report: Report) -> None:
        """Prints a line if a run has ended or half a minute has passed.

        Args:
            name: The name of the run.
            work: The run.
            report: The newest report of it.
        """
        match report:
            case Progress():
                self._going[name] = report
                if time.monotonic() - self._printed > SECONDS_BETWEEN_LINES:
                    self._print("; ".join(f"{n}: {p.batches}/{p.all_batches} mini-batches"
                                          for n, p in self._going.items()))  # fmt: skip
            case Told() if report.line not in self._told:
                self._told.add(report.line)
                self._print(f"{name}: {report.line}")
            case Ended():
                self._going.pop(name, None)
                self._ended += 1
                self._print(f"{self._ended}/{self._total} {end_of_run(name, work, report)}")

    def _print(self, text: str) -> None:
        """Prints a line."""
        self._printed = time.monotonic()
        self._console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


class NoView:
    """Shows nothing, for `--quiet`."""

    def show(self, name: str, work: Work, report: Report) -> None:
        """Shows nothing.

        Args:
            name: The name of the run.
            work: The run.
            report: The newest report of it.
        """


def end_of_run(name: str, work: Work, report: Ended) -> str:
    """Says how a run has ended, with its accuracy if it is finished.

    Args:
        name: The name of the run.
        work: The run.
        report: The report of its end.
    """
    if report.outcome != "finished":
        return f"{name}: {report.outcome}" + (f": {report.message}" if report.message else "")
    result = RunDirectory(work.path).result()
    assert result is not None
    return f"{name}: A {number(result.A)}, F {number(result.F)}, {result.seconds:.0f} s"


@contextmanager
def jobs_view(total: int, console: Console, quiet: bool) -> Iterator[JobsView]:
    """Chooses how to show several runs: as bars in a terminal, as lines elsewhere, or not at all.

    Args:
        total: The number of runs.
        console: The console on which they are shown.
        quiet: Whether to show nothing.
    """
    if quiet:
        yield NoView()
    elif not console.is_terminal:
        yield JobLines(total, console)
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                   TimeElapsedColumn())  # fmt: skip
        with Bars(*columns, console=console, transient=True) as bars:
            yield JobBars(total, bars)
