"""A worker process: makes runs one after the other, as the command that started it asks.

It is `python -m ofcl.jobs.worker`. Orders come on standard input, a line of JSON each: a run to
make, or `{"stop": true}`. Reports leave on standard output. When standard input ends, the command
is gone, and the worker ends at once: a run survives that as it survives a kill.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import IO

from ofcl.assembly.dealing import Loader
from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.events import Evaluated
from ofcl.experiment import Interrupted, Run
from ofcl.jobs.opening import open_run
from ofcl.jobs.tally import Tally
from ofcl.jobs.work import Ended, Outcome, Progress, Report, Told, Work, report_to_line, work_from
from ofcl.storage.run_directory import RunDirectory

SECONDS_BETWEEN_REPORTS = 0.25

Send = Callable[[Report], None]


class Orders:
    """The orders that come to a worker, read by a thread of its own.

    Args:
        lines: The stream of lines; when it ends, so does this process.
    """

    def __init__(self, lines: IO[str]) -> None:
        self._lines, self._waiting = lines, queue.SimpleQueue[Work]()
        self._lock, self._stopped = threading.Lock(), False
        self._run: Run | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Work:
        """Waits for the next run to make."""
        return self._waiting.get()

    def begin(self, run: Run) -> None:
        """Lets orders to stop reach a run, also one that came while it was opened.

        Args:
            run: The run that now begins.
        """
        with self._lock:
            self._run = run
            if self._stopped:
                run.stop()

    def end(self) -> None:
        """Forgets the run, and an order to stop it."""
        with self._lock:
            self._run, self._stopped = None, False

    def _read(self) -> None:
        """Reads orders until there are no more, then ends the process."""
        for line in self._lines:
            order = json.loads(line)
            if "stop" not in order:
                self._waiting.put(work_from(order))
                continue
            with self._lock:
                self._stopped = True
                if self._run is not None:
                    self._run.stop()
        os._exit(0)


def make(work: Work, orders: Orders, load: Loader, send: Send) -> Ended:
    """Makes a run, whatever happens; says how it has ended.

    Args:
        work: The run to make.
        orders: The orders that may stop it.
        load: Loads the dataset.
        send: Is given each report.
    """
    try:
        opened = open_run(work.path, work.settings, load, lambda line: send(Told(line)))
        if not isinstance(opened, Result):
            for warning in opened.warnings:
                send(Told(warning))
            orders.begin(opened)
            _follow(opened, send)
        return Ended("finished")
    except Interrupted:
        return Ended("stopped")
    except OfclError as error:
        begun = RunDirectory(work.path).started()
        disk = isinstance(error.__cause__, OSError)  # full, or not to be written to
        outcome: Outcome = "failed" if begun or disk else "refused"
        return Ended(outcome, " ".join(str(error).splitlines()))
    except Exception as error:  # the other runs go on
        traceback.print_exc()
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}, line {last.lineno}"
        return Ended("failed", f"{type(error).__name__}: {error} ({where})")
    finally:
        orders.end()


def _follow(run: Run, send: Send) -> None:
    """Runs a run to its end, and reports now and then, and whenever a task has ended for all.

    Args:
        run: The run.
        send: Is given each report.
    """
    tally, reported = Tally(run), 0.0
    ended = _ended_tasks(tally)
    for event in run:
        tally.add(event)
        if isinstance(event, Evaluated) and _ended_tasks(tally) > ended:
            ended = _ended_tasks(tally)
            send(_progress(run, tally, ended, run.result().anytime_accuracy))
        elif time.monotonic() - reported > SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            send(_progress(run, tally, ended, None))


def _ended_tasks(tally: Tally) -> int:
    """Counts the tasks of this run that all clients have ended."""
    return sum(n == tally.clients for task, n in tally.ended.items() if task >= tally.earlier)


def _progress(run: Run, tally: Tally, ended: int, anytime_accuracy: float | None) -> Progress:
    """Makes a report of how far a run has come."""
    return Progress(
        tally.batches, run.batches, tally.task, tally.tasks or 0, ended, anytime_accuracy
    )


def main() -> None:
    """Makes runs until standard input ends."""
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what libraries print is no report
    orders, load = Orders(sys.stdin), Loader()

    def send(report: Report) -> None:
        """Writes a report to the command that started this process."""
        try:
            reports.write(report_to_line(report) + "\n")
        except OSError:  # it is gone
            os._exit(0)

    while True:
        send(make(orders.next(), orders, load, send))


if __name__ == "__main__":
    main()
