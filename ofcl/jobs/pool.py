"""The worker processes of a command, each of which makes one run at a time."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType

from ofcl.errors import OfclError
from ofcl.jobs.machine import usable_cores, visible_gpus, worker_environment
from ofcl.jobs.work import Ended, Report, Work, report_from_line

COMMAND = (sys.executable, "-m", "ofcl.jobs.worker")
SECONDS_TO_END = 5.0

Heard = tuple["_Worker", Report | None]


class Pool:
    """Several worker processes, started as they are needed.

    A worker that crashes ends its run alone; the next run gets a new one.

    Args:
        workers: How many there are at most.
        gpus: The GPUs that they share, one after the other; None: all that are visible.
        command: The command of a worker.

    The caller sees the loop:

        with Pool(2) as pool:
            while works or pool.busy:
                while works and pool.free:
                    pool.start(works.pop())
                for work, report in pool.reports(timeout=1.0):
                    ...
    """

    def __init__(
        self,
        workers: int,
        gpus: list[str] | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        if workers < 1:
            raise OfclError(f"jobs = {workers}; expected 1 or more")
        self._most, self._command = workers, command
        self._gpus = visible_gpus() if gpus is None else gpus
        self._workers: list[_Worker | None] = [None] * workers
        self._heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()

    @property
    def busy(self) -> list[Work]:
        """The runs that are being made."""
        return [w.work for w in self._workers if w is not None and w.work is not None]

    @property
    def free(self) -> bool:
        """Tells whether another run can be started now."""
        return len(self.busy) < self._most

    def start(self, work: Work) -> None:
        """Lets a free worker make a run, if possible one that has read the same dataset last.

        Args:
            work: The run; no other may have its directory.
        """
        if not self.free:
            raise OfclError(f"all {self._most} workers are busy")
        waiting = [w for w in self._workers if w is not None and w.work is None]
        waiting.sort(key=lambda worker: worker.dataset != work.settings.dataset)
        if not waiting or (waiting[0].dataset != work.settings.dataset and None in self._workers):
            waiting = [self._new_worker(self._workers.index(None))]
        waiting[0].order(work)

    def stop(self, work: Work | None = None) -> None:
        """Asks runs to save their state and stop.

        Args:
            work: The run; None: all of them.
        """
        for worker in self._workers:
            if worker is not None and worker.work is not None and work in (None, worker.work):
                worker.send({"stop": True})

    def reports(self, timeout: float) -> Iterator[tuple[Work, Report]]:
        """Yields the reports that have come, each with its run; waits for the first.

        Args:
            timeout: How many seconds to wait.
        """
        heard: Heard | None
        try:
            heard = self._heard.get(timeout=timeout)
        except queue.Empty:
            return
        while heard is not None:
            worker, report = heard
            work = worker.work
            if report is None:  # the process has ended
                self._workers[self._workers.index(worker)] = None
                report = Ended("failed", worker.last_words())
            if isinstance(report, Ended):
                worker.work = None
            if work is not None:
                yield work, report
            heard = None if self._heard.empty() else self._heard.get()

    def close(self) -> None:
        """Ends all workers; runs that are not stopped yet end as by a kill."""
        workers = [worker for worker in self._workers if worker is not None]
        self._workers = [None] * self._most
        for worker in workers:
            worker.hang_up()
        until = time.monotonic() + SECONDS_TO_END
        for worker in workers:
            worker.wait(until - time.monotonic())

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _new_worker(self, number: int) -> _Worker:
        """Starts a worker process.

        Args:
            number: Its number, by which it gets its GPU.
        """
        cores = usable_cores()
        environment = worker_environment(number, self._most, self._gpus, cores)
        worker = self._workers[number] = _Worker(self._command, environment, self._heard)
        return worker


class _Worker:
    """A worker process, seen from the command that started it.

    Args:
        command: Its command.
        environment: Its environment variables.
        heard: The queue that gets its reports, and None when the process has ended.

    Attributes:
        work: The run that it makes; None: it waits.
        dataset: The dataset that it has read last.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        heard: queue.SimpleQueue[Heard],
    ) -> None:
        self.work: Work | None = None
        self.dataset: str | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # its standard error
        # Ctrl-C in a terminal is for the command alone, which then stops its workers.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=environment,
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        threading.Thread(target=self._listen, args=(heard,), daemon=True).start()

    def order(self, work: Work) -> None:
        """Lets the process make a run."""
        self.work, self.dataset = work, work.settings.dataset
        self._write(work.to_line())

    def send(self, order: dict[str, bool]) -> None:
        """Sends the process another order."""
        self._write(json.dumps(order))

    def _write(self, line: str) -> None:
        """Writes a line to the process; one that has ended is heard of by its reports."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self, heard: queue.SimpleQueue[Heard]) -> None:
        """Hands on all reports of the process, and None when it has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            heard.put((self, report_from_line(line.decode())))
        heard.put((self, None))

    def hang_up(self) -> None:
        """Closes the process's standard input, by which it ends."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def wait(self, seconds: float) -> None:
        """Waits for the process to end, and kills it if it does not.

        Args:
            seconds: How long to wait.
        """
        try:
            self._process.wait(max(seconds, 0.1))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """Says how the process has ended, with the last line that it wrote to standard error."""
        self.wait(SECONDS_TO_END)
        code = self._process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"has ended with {code}"
        self._said.seek(max(self._said.seek(0, os.SEEK_END) - 2000, 0))
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f"its process {how}" + (f": {lines[-1]}" if lines else "")
