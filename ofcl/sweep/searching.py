"""The loop of a sweep: trials are begun, judged, stopped early, and gone on with after a kill."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ofcl.errors import OfclError
from ofcl.jobs.pool import Pool
from ofcl.jobs.work import Ended, Progress, Report, Work
from ofcl.storage.run_directory import RunDirectory
from ofcl.sweep.space import Value
from ofcl.sweep.study import Trials
from ofcl.sweep.sweep_file import OBJECTIVE, SweepPlan

DEFAULT = "default"
TRIALS = "trials"
SECONDS_BETWEEN_LOOKS = 0.2


@dataclass
class Candidate:
    """A trial, or the default, whose runs are being made: one seed after the other.

    Args:
        folder: The folder of its runs.
        values: The values of the searched settings; empty: the default.
        number: The number of the trial; None: it is the default.
        found: The validation accuracy of each run that is finished.
        behind: Whether it was asked to stop because it lags behind.
    """

    folder: Path
    values: dict[str, Value] = field(default_factory=dict)
    number: int | None = None
    found: list[float] = field(default_factory=list)
    behind: bool = False

    @property
    def name(self) -> str:
        """The name of the candidate for the user."""
        return DEFAULT if self.number is None else f"trial {self.number}"


def trial_folder(folder: Path, number: int) -> Path:
    """Names the folder of a trial's runs.

    Args:
        folder: The folder of the sweep.
        number: The number of the trial.
    """
    return folder / TRIALS / f"{number:04d}"


def read_value(run: Path) -> float | None:
    """Reads the validation accuracy of a run; None if it is not finished.

    Args:
        run: The run directory.

    Raises:
        OfclError: If the run is finished and nothing was held out for validation.
    """
    result = RunDirectory(run).result()
    if result is None:
        return None
    if result.validation_A is None:
        raise OfclError(
            f"'{run}' has no {OBJECTIVE}: nothing is held out for validation. Set validation above "
            "0, for example 0.1; with few samples, a larger share"
        )
    return result.validation_A


class Search:
    """The search of a sweep. Iterating over it makes all trials that are missing.

    Args:
        plan: The plan of the sweep.
        folder: The folder of the sweep, which this process has locked.
        trials: The trials so far.
        pool: The workers.
        stop: When it is set, no more trials are begun, and those that run save their state.
    """

    def __init__(
        self, plan: SweepPlan, folder: Path, trials: Trials, pool: Pool, stop: threading.Event
    ) -> None:
        self._plan, self._folder, self._trials = plan, folder, trials
        self._pool, self._stop = pool, stop
        self._working: dict[Work, Candidate] = {}
        self._waiting = deque([Candidate(folder / DEFAULT)])
        self.default_problem = ""  # why there is no default to compare with

    def __iter__(self) -> Iterator[tuple[str, Work, Report]]:
        """Makes the trials, and yields the name of each with its run and the newest report."""
        for record in self._trials.records():
            if record.state == "running":  # when the last process ended
                values = self._trials.take_up(record.number).values
                self._wait(record.number, values)
        asked = False
        while True:
            if self._stop.is_set() and not asked:
                self._pool.stop()
                asked = True
            while self._pool.free and not self._stop.is_set() and self._start_next():
                pass
            if not self._working:
                return
            for work, report in self._pool.reports(SECONDS_BETWEEN_LOOKS):
                candidate = self._working[work]
                named = f"{candidate.name}, seed {work.settings.seed}"
                yield named, work, _explained(candidate, report)
                self._hear(work, candidate, report)

    def _wait(self, number: int, values: dict[str, Value]) -> None:
        """Lets a trial wait for a worker."""
        self._waiting.append(Candidate(trial_folder(self._folder, number), values, number))

    def _start_next(self) -> bool:
        """Starts a run of the next candidate; says whether there was one."""
        if not self._waiting:
            if len(self._trials.records()) >= self._plan.trials:
                return False
            begun = self._trials.begin()
            self._wait(begun.number, begun.values)
        self._go_on(self._waiting.popleft())
        return True

    def _go_on(self, candidate: Candidate) -> None:
        """Starts the next run of a candidate, or ends it if all its runs are finished."""
        while len(candidate.found) < len(self._plan.seeds):
            seed = self._plan.seeds[len(candidate.found)]
            path = candidate.folder / f"seed{seed}"
            value = read_value(path)
            if value is None:
                self._start(candidate, path, seed)
                return
            candidate.found.append(value)
        if candidate.number is not None:
            mean = sum(candidate.found) / len(candidate.found)
            self._trials.complete(candidate.number, mean)

    def _start(self, candidate: Candidate, path: Path, seed: int) -> None:
        """Starts a run, unless its values exclude each other or it lagged behind before."""
        number = candidate.number
        if number is not None and self._trials.lags_behind(number):
            self._trials.give_up(number)
            return
        try:
            work = Work(path, self._plan.settings(candidate.values, seed))
        except OfclError as error:
            self._fail(candidate, str(error))
            return
        self._working[work] = candidate
        self._pool.start(work)

    def _hear(self, work: Work, candidate: Candidate, report: Report) -> None:
        """Draws the conclusions from a report of a run."""
        match report:
            case Progress(anytime_accuracy=float()):
                self._judge(work, candidate, report)
            case Ended():
                del self._working[work]
                self._end(candidate, report)

    def _judge(self, work: Work, candidate: Candidate, report: Progress) -> None:
        """Reports a task that has ended to Optuna; stops the run if it lags behind the others."""
        if candidate.number is None or report.anytime_accuracy is None:
            return
        step = len(candidate.found) * report.tasks + report.ended
        self._trials.report(candidate.number, step, report.anytime_accuracy)
        last = step == len(self._plan.seeds) * report.tasks
        if not last and not candidate.behind and self._trials.lags_behind(candidate.number):
            candidate.behind = True
            self._pool.stop(work)

    def _end(self, candidate: Candidate, report: Ended) -> None:
        """Goes on after a run has ended: with the next one, or with another candidate."""
        number = candidate.number
        if report.outcome in ("failed", "refused"):
            self._fail(candidate, report.message)
        elif candidate.behind and number is not None:
            self._trials.give_up(number)
        elif report.outcome == "finished":
            # Unless somebody wants to stop: then the trial is gone on with another time.
            self._waiting.appendleft(candidate)

    def _fail(self, candidate: Candidate, reason: str) -> None:
        """Ends a candidate that cannot be run."""
        if candidate.number is None:
            self.default_problem = reason
        else:
            self._trials.give_up(candidate.number, reason)


def _explained(candidate: Candidate, report: Report) -> Report:
    """Adds the reason to the report of a run that was stopped early."""
    if candidate.behind and isinstance(report, Ended) and report.outcome == "stopped":
        return Ended("stopped", "it lags behind the others")
    return report
