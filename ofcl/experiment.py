"""A run from beginning to end: `run` and `resume`, and `Run` for those who want to watch."""

from __future__ import annotations

import platform
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

import numpy as np
import torch

from ofcl.algorithm import Engine, federate
from ofcl.assembly.participants import Parties
from ofcl.assembly.stages import Hooks, Stage, find_stage
from ofcl.data.dataset import Dataset
from ofcl.data.live.iterator_feed import Items
from ofcl.data.live.sample import Feed, StreamError
from ofcl.errors import OfclError
from ofcl.evaluation.results import Result, summarise
from ofcl.events import Event, Learned, TaskEnded
from ofcl.privacy import epsilon
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import check_noise
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ofcl.storage.recorder import Recorder, counted
from ofcl.storage.run_directory import RunDirectory
from ofcl.version import __version__

SECONDS_BETWEEN_SAVES = 10


class Interrupted(OfclError):
    """The run was stopped by Ctrl-C or SIGTERM, after its state had been saved."""


class Run:
    """A run to be iterated over: every event as it happens, then `result()`.

    Clients learn from their shares of a dataset (by default the one that the settings name), or
    from `streams`, one each; another `stage` puts them elsewhere. With a directory everything is
    recorded there, and a run that was stopped can be resumed.
    """

    directory: RunDirectory | None = None
    _lock: IO[str] | None = None

    def __init__(
        self,
        settings: Settings,
        dataset: Dataset | None = None,
        out: str | Path | None = None,
        *,
        streams: Sequence[Feed | Items] = (),
        test: Iterable[Any] = (),
        stage: Stage | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        check_noise(settings)
        if out is not None:
            RunDirectory(out).check_new()
        place = Path(out) if out is not None else None
        stage = stage or find_stage(settings, dataset, streams, test, place)
        self._begin(settings, stage, tell)
        if out is not None:
            self.directory = RunDirectory(out)
            parties = self._parties
            self.directory.create(
                self.settings, parties.labels, parties.form, _made_with(), parties.fingerprint
            )
            self._lock = self.directory.lock()

    @classmethod
    def resume(
        cls,
        path: str | Path,
        dataset: Dataset | None = None,
        device: str | None = None,
        tell: Callable[[str], None] = print,
        *,
        streams: Sequence[Feed | Items] = (),
        test: Iterable[Any] = (),
        stage: Stage | None = None,
    ) -> Run:
        """A run that goes on where its last checkpoint was.

        An iterator given as a stream goes on with what it brings next; a function is asked for
        what comes behind so many samples.
        """
        directory = RunDirectory(path)
        settings = directory.settings()
        if device is not None:
            settings = settings.model_copy(update={"device": device})
        run = cls.__new__(cls)
        run.directory, run._lock = directory, directory.lock()
        try:
            checkpoint = load_checkpoint(directory.checkpoints, tell)
            known = checkpoint.state["parties"] if checkpoint else None
            stage = stage or find_stage(settings, dataset, streams, test, Path(path))
            run._begin(settings, stage, tell, known)
            run._resumed = True
            if not settings.streams:
                directory.check_labels(run._parties.first_labels)
                directory.check_data(run._parties.fingerprint, tell)
            if checkpoint is not None:
                run.events = counted(directory, checkpoint.events)
                run._seconds = checkpoint.seconds
                run._load(checkpoint.state)
        except BaseException:
            run._lock.close()
            raise
        return run

    def _begin(
        self,
        settings: Settings,
        stage: Stage,
        tell: Callable[[str], None],
        known: State | None = None,
    ) -> None:
        self.events: list[Event] = []
        self._seconds, self._unsaved, self._resumed = 0.0, 0, False
        self._saved, self._saving = time.monotonic(), 0.0
        self._stop = threading.Event()
        self._recorder: Recorder | None = None
        self._stage = stage
        hooks = Hooks(self._pause, self._save, tell)
        self._parties: Parties = stage.parties(settings, known, hooks)
        self.settings, self.warnings = self._parties.settings, self._parties.warnings
        self.batches = self._parties.batches
        self._engine: Engine = stage.engine(self._parties, hooks)
        self._server = self._parties.server

    def _load(self, state: State) -> None:
        try:
            self._engine.load_state(state["engine"])
            self._server.load_state(state["server"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise OfclError(
                "the checkpoint does not fit the run's settings.toml; was the file changed? "
                f"({str(error).splitlines()[0]})"
            ) from error

    def __iter__(self) -> Iterator[Event]:
        started = time.perf_counter() - self._seconds
        if self.directory is not None:
            self._recorder = Recorder(self.directory, self.events, self._resumed)
        try:
            with _stop_requested(self._stop):
                for event in federate(self._engine, self._server):
                    self._seconds = time.perf_counter() - started
                    if self._recorder is None:
                        self.events.append(event)
                    else:
                        self._recorder.record(event, self._seconds)
                    if isinstance(event, TaskEnded):
                        self._save_pictures(event.task)
                    yield event
                    self._unsaved += event.batches if isinstance(event, Learned) else 0
                    if self._save_is_due():
                        self._save()
                    if self._stop.is_set():
                        raise _Stopped
                self._save()
                if self.directory is not None:
                    self._save_pictures(self._server.task + 1, at_the_end=True)
                    self.directory.save_result(self.result(), self._server.model)
        except _Stopped:
            self._save()
            raise self._interrupted() from None
        except StreamError as error:
            self._save()
            raise StreamError(f"{error}{self._how_to_go_on()}") from None
        finally:
            self._engine.close()
            if self._recorder is not None:
                self._recorder.close()
            if self._lock is not None:
                self._lock.close()

    @property
    def labels(self) -> tuple[str, ...]:
        """The vocabulary: the labels in the order of their places."""
        return self._parties.labels

    def result(self) -> Result:
        """What the events so far come to."""
        return summarise(
            self.events,
            clients=self.settings.clients,
            tasks=None if self.settings.streams else self.settings.tasks,
            seconds=round(self._seconds, 3),
        )

    def epsilon(self) -> float | None:
        """The ε that the updates of a client have cost so far, at `dp_delta`; None: no privacy."""
        if self.settings.dp_clip is None:
            return None
        return epsilon(self._engine.released(), self.settings.dp_noise, self.settings.dp_delta)

    def _save_is_due(self) -> bool:
        if self.settings.checkpoint_every is not None:
            return self._unsaved >= self.settings.checkpoint_every
        # Saving much takes long; it shall not take more than a small part of the time.
        wait = max(SECONDS_BETWEEN_SAVES, 20 * self._saving)
        return self._unsaved > 0 and time.monotonic() - self._saved >= wait

    def _save(self) -> None:
        started = time.monotonic()
        self._write_checkpoint()
        self._unsaved, self._saved = 0, time.monotonic()
        self._saving = self._saved - started

    def _write_checkpoint(self) -> None:
        if self.directory is None or self._recorder is None:
            return
        self._recorder.sync()
        state = {
            "engine": self._engine.state(),
            "server": self._server.state(),
            "parties": self._parties.state(),
        }
        save_checkpoint(
            self.directory.checkpoints, Checkpoint(len(self.events), self._seconds, state)
        )

    def _save_pictures(self, task: int, at_the_end: bool = False) -> None:
        """What a generative method makes at the end of a task, to be looked at."""
        if self.directory is None:
            return
        if pictures := self._server.pictures(at_the_end=at_the_end):
            self.directory.save_pictures(task, {self.labels[c]: x for c, x in pictures.items()})

    def _pause(self, seconds: float) -> None:
        """Waits for streams that have nothing to learn; what was learned is saved meanwhile."""
        if self._unsaved and time.monotonic() - self._saved >= SECONDS_BETWEEN_SAVES:
            self._save()
        if self._stop.wait(seconds):
            raise _Stopped

    def _interrupted(self) -> BaseException:
        if self.directory is None:
            return KeyboardInterrupt()
        return Interrupted(f"stopped; go on with: {self._stage.go_on(self.directory.path)}")

    def _how_to_go_on(self) -> str:
        if self.directory is None:
            return ""
        return f". All that was learned is saved; then: {self._stage.go_on(self.directory.path)}"


class _Stopped(Exception):
    """Ctrl-C or SIGTERM, seen between two mini-batches."""


def run(
    dataset: str | Dataset | None = None,
    *,
    streams: Sequence[Feed | Items] = (),
    test: Iterable[Any] = (),
    out: str | Path | None = None,
    **settings: Any,
) -> Result:
    """Runs an experiment and gives its result.

    Every setting of `Settings` can be given by name; with `out`, everything is saved there.

    >>> result = run(dataset="digits", method="er", memory=50, tasks=2, clients=2, model="mlp",
    ...              burn_in=5, limit=10)
    >>> result.rounds
    2

    Instead of a dataset, every client can have a stream: any iterator of (x, y) or (x, y, task),
    samples or batches of them. Labels nobody announced are learned as they come.

    >>> def readings(seed):
    ...     draw = np.random.default_rng(seed)
    ...     for n in range(200):
    ...         label = "ill" if draw.random() < 0.5 else "well"
    ...         yield draw.normal(3 if label == "ill" else 0, 1, size=4), label
    >>> result = run(streams=[readings(0), readings(1)], method="bi", memory=20, burn_in=2)
    >>> result.rounds, result.anytime_accuracy > 60
    (4, True)
    """
    if streams and isinstance(streams, list | tuple):
        settings.setdefault("clients", len(streams))
    if isinstance(test, str | Path):
        settings["test"], test = str(test), ()
    if dataset is not None:
        settings["dataset"] = dataset if isinstance(dataset, str) else dataset.name
    data = None if isinstance(dataset, str) else dataset
    return _finish(Run(make_settings(settings), data, out, streams=streams, test=test))


def resume(
    path: str | Path,
    *,
    dataset: Dataset | None = None,
    streams: Sequence[Feed | Items] = (),
    test: Iterable[Any] = (),
) -> Result:
    """Goes on with a run that was stopped, as if nothing had happened; a finished one is read."""
    result = RunDirectory(path).result()
    if result is not None:
        return result
    tell = warnings.warn
    return _finish(Run.resume(path, dataset, tell=tell, streams=streams, test=test))


def _finish(started: Run) -> Result:
    for warning in started.warnings:
        warnings.warn(warning, stacklevel=3)
    for _ in started:
        pass
    return started.result()


def _made_with() -> dict[str, Any]:
    return {
        "ofcl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
    }


@contextmanager
def _stop_requested(stop: threading.Event) -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM set an event, so that a run stops between two mini-batches.

    A second Ctrl-C interrupts at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in before:
        signal.signal(number, request)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
