"""A run from beginning to end: `run` and `resume`, and `Run` for those who want to watch."""

from __future__ import annotations

import platform
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

import numpy as np
import torch

import ofcl
from ofcl import build
from ofcl.algorithm import federate
from ofcl.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ofcl.config import Settings, make_settings
from ofcl.data import load_dataset
from ofcl.data.dataset import Dataset
from ofcl.engines.local import LocalEngine
from ofcl.errors import OfclError
from ofcl.events import Event, Learned
from ofcl.results import Result, summarise
from ofcl.runs import Recorder, RunDirectory, counted
from ofcl.state import State


class Interrupted(OfclError):
    """The run was stopped by Ctrl-C or SIGTERM, after its state had been saved."""


class Run:
    """A run to be iterated over: every event as it happens, then `result()`.

    With a directory everything is recorded there, and a run that was stopped can be resumed.
    """

    directory: RunDirectory | None
    _lock: IO[str] | None = None

    def __init__(self, settings: Settings, dataset: Dataset, out: str | Path | None = None) -> None:
        self._start(build.resolve(settings, dataset), dataset)
        self.directory = None if out is None else RunDirectory(out)
        if self.directory is not None:
            self.directory.create(self.settings, dataset.labels, _made_with())
            self._lock = self.directory.lock()

    @classmethod
    def resume(
        cls,
        path: str | Path,
        dataset: Dataset | None = None,
        device: str | None = None,
        tell: Callable[[str], None] = print,
    ) -> Run:
        """A run that goes on where its last checkpoint was."""
        directory = RunDirectory(path)
        settings = directory.settings()
        if device is not None:
            settings = settings.model_copy(update={"device": device})
        dataset = dataset or load_dataset(settings.dataset)
        directory.check_labels(dataset.labels)
        run = cls.__new__(cls)
        run.directory, run._lock = directory, directory.lock()
        run._start(build.resolve(settings, dataset), dataset)
        run._resumed = True
        checkpoint = load_checkpoint(directory.checkpoints, tell)
        if checkpoint is not None:
            run.events = counted(directory, checkpoint.events)
            run._seconds = checkpoint.seconds
            run._load(checkpoint.state)
        return run

    def _load(self, state: State) -> None:
        try:
            self._engine.load_state(state["engine"])
            self._server.load_state(state["server"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise OfclError(
                "the checkpoint does not fit the run's settings.toml; was the file changed? "
                f"({str(error).splitlines()[0]})"
            ) from error

    def _start(self, settings: Settings, dataset: Dataset) -> None:
        self.settings = settings
        device = build.find_device(settings.device)
        shares = build.build_shares(settings, dataset)
        self.warnings = build.check(settings, dataset, shares)
        dataset = dataset.to(device)
        clients = [build.build_client(settings, dataset, k, s) for k, s in enumerate(shares)]
        self.batches = sum(sum(build.task_lengths(settings, share)) for share in shares)
        self.events: list[Event] = []
        self._engine = LocalEngine(clients)
        self._server = build.build_server(settings, dataset)
        self._seconds = 0.0
        self._resumed = False

    def __iter__(self) -> Iterator[Event]:
        started = time.perf_counter() - self._seconds
        recorder = None
        if self.directory is not None:
            recorder = Recorder(self.directory, self.events, self._resumed)
        unsaved = 0
        try:
            with _stop_requested() as stop:
                for event in federate(self._engine, self._server):
                    self._seconds = time.perf_counter() - started
                    if recorder is None:
                        self.events.append(event)
                    else:
                        recorder.record(event, self._seconds)
                    yield event
                    unsaved += event.batches if isinstance(event, Learned) else 0
                    if unsaved >= self.settings.checkpoint_every or stop.is_set():
                        self._save(recorder)
                        unsaved = 0
                    if stop.is_set():
                        raise self._interrupted()
                self._save(recorder)
                if self.directory is not None:
                    self.directory.save_result(self.result(), self._server.model)
        finally:
            if recorder is not None:
                recorder.close()
            if self._lock is not None:
                self._lock.close()

    def result(self) -> Result:
        """What the events so far come to."""
        return summarise(
            self.events,
            clients=self.settings.clients,
            tasks=self.settings.tasks,
            seconds=round(self._seconds, 3),
        )

    def _save(self, recorder: Recorder | None) -> None:
        if self.directory is None or recorder is None:
            return
        recorder.sync()
        state = {"engine": self._engine.state(), "server": self._server.state()}
        save_checkpoint(
            self.directory.checkpoints, Checkpoint(len(self.events), self._seconds, state)
        )

    def _interrupted(self) -> BaseException:
        if self.directory is None:
            return KeyboardInterrupt()
        return Interrupted(f"stopped; go on with: ofcl resume {self.directory.path}")


def run(
    dataset: str | Dataset = "fashion-mini", *, out: str | Path | None = None, **settings: Any
) -> Result:
    """Runs an experiment and gives its result.

    Every setting of `Settings` can be given by name; with `out`, everything is saved there.

    >>> result = run(dataset="digits", method="er", memory=50, tasks=2, clients=2, model="mlp",
    ...              burn_in=5, limit=10)
    >>> result.rounds
    2
    """
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    started = Run(make_settings({"dataset": data.name, **settings}), data, out)
    return _finish(started)


def resume(path: str | Path, *, dataset: Dataset | None = None) -> Result:
    """Goes on with a run that was stopped, as if nothing had happened; a finished one is read."""
    result = RunDirectory(path).result()
    return result or _finish(Run.resume(path, dataset, tell=warnings.warn))


def _finish(started: Run) -> Result:
    for warning in started.warnings:
        warnings.warn(warning, stacklevel=3)
    for _ in started:
        pass
    return started.result()


def _made_with() -> dict[str, Any]:
    return {
        "ofcl": ofcl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
    }


@contextmanager
def _stop_requested() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets, so that a run stops between two mini-batches.

    A second Ctrl-C interrupts at once.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in before:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
