"""A run from beginning to end: `run` and `resume`; with `Run`, a caller sees every event."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ofcl.assembly.dealing import Loader, build_reading
from ofcl.assembly.going_on import read_start
from ofcl.assembly.inheritance import Data, check_restated, inherited
from ofcl.assembly.make_bundle import build_bundle
from ofcl.assembly.saved_models import SavedModels
from ofcl.assembly.stages import Hooks, Stage, choose_stage
from ofcl.assembly.start import Start, start_from_json
from ofcl.assembly.stream_clients import TestSamples
from ofcl.assembly.versions import made_with
from ofcl.buffered import loop_of
from ofcl.bundle.bundle_files import Bundle
from ofcl.bundle.open_bundle import open_bundle
from ofcl.bundle.trained_model import TrainedModel
from ofcl.client import Client
from ofcl.compute.devices import cpu_threads
from ofcl.data.dataset import Dataset
from ofcl.data.live.iterator_feed import Items
from ofcl.data.live.sample import Feed, StreamError
from ofcl.data.own.torch_datasets import dataset_of
from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.events import Evaluated, Event, Learned, TaskEnded
from ofcl.own_parts.handed_over import hand_over_as
from ofcl.own_parts.kinds import is_path
from ofcl.own_parts.part_identity import check_identities, identities
from ofcl.own_parts.permission import check_allowed, code_in
from ofcl.privacy import epsilon
from ofcl.server import Server
from ofcl.settings.layers import make_settings
from ofcl.settings.rules import check_cross_site, check_noise, check_secure_aggregation
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.stopping import Interrupted, Stopped, stop_requested
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint
from ofcl.storage.locks import Lock
from ofcl.storage.run_directory import RunDirectory
from ofcl.storage.run_record import RunRecord
from ofcl.storage.save_timer import SaveTimer
from ofcl.update import network_alone

__all__ = ["Interrupted", "Run", "resume", "run"]


class Run:
    """A run to iterate over: it yields every event as it happens; `result()` then has the result.

    Clients learn from their shares of a dataset, or from streams. With a run directory, everything
    is recorded there, and a stopped run can be resumed.

    Args:
        settings: The run's settings.
        dataset: The dataset; default: the one that the settings name.
        out: The run directory, which must be new; None: nothing is recorded.
        streams: A stream for each client, instead of a dataset.
        test: Samples to test on, for streams: a file, a folder, or the samples themselves.
        stage: Where the clients run; default: the stage that the settings ask for.
        load: Loads the dataset that the settings name; default: a loader that prints its messages.
        tell: Is given each line for the user.
        start: What the run goes on from: an earlier run's directory, or a model's bundle. The
            settings must fit it (`inherited`). None: what the settings name, if anything.
    """

    directory: RunDirectory | None
    _lock: Lock | None = None

    def __init__(
        self,
        settings: Settings,
        dataset: Dataset | None = None,
        out: str | Path | None = None,
        *,
        streams: Sequence[Feed | Items] = (),
        test: TestSamples = (),
        stage: Stage | None = None,
        load: Loader | None = None,
        tell: Callable[[str], None] = print,
        start: Start | str | Path | None = None,
    ) -> None:
        check_noise(settings)
        check_secure_aggregation(settings)
        check_cross_site(settings)
        start = settings.start if start is None else start
        if start is not None:
            start = read_start(start) if isinstance(start, str | Path) else start
            settings = settings.model_copy(update={"start": start.name})
        path = Path(out) if out is not None else None
        self.directory = RunDirectory(path) if path is not None else None
        if self.directory is not None:
            self.directory.check_new()
        stage = stage or choose_stage(settings, dataset, streams, test, path, load, start)
        self._prepare(settings, stage, tell)
        if self.directory is not None:
            known = self.participants
            self.directory.create(
                self.settings,
                known.labels,
                known.form,
                made_with(),
                known.fingerprint,
                identities(self.settings.model_dump()),
                start=known.start.to_json() if known.start else None,
                state=self._state() if known.start else None,
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
        test: TestSamples = (),
        stage: Stage | None = None,
        load: Loader | None = None,
        on_bad: str | None = None,
        allow: Iterable[str] = (),
        parts: Mapping[str, Any] | None = None,
        ray: str | None = None,
    ) -> Run:
        """Opens a stopped run, to go on from its last checkpoint.

        Args:
            path: The run directory.
            dataset: The dataset, if the run was given one from Python.
            device: The device to go on with; default: the one in the settings.
            tell: Is given each line for the user.
            streams: The streams, if the run was given some from Python. An iterator must begin
                with the next sample; a function is called with the number of samples to skip.
            test: Samples to test on, if the run was given some from Python.
            stage: Where the clients run; default: the stage that the settings ask for.
            load: Loads the dataset that the settings name.
            on_bad: `stop` at samples of streams that cannot be read, `skip` them, or `wait`, from
                now on; default: as the settings say.
            allow: Paths to code that the run's settings name and that may be imported.
            parts: Parts of the user's own that the run was given from Python, by their settings.
            ray: The address of the Ray cluster to go on with, or `local` for this machine. Needed
                if the settings name a cluster: no address is called because a file names it.

        Raises:
            OfclError: If the run uses code that was neither allowed nor given, or that has changed,
                or a cluster that was not named here.
        """
        directory = RunDirectory(path)
        directory.check_links()
        settings = directory.settings()
        _take_parts(directory, settings, allow, parts or {})
        if on_bad is not None:
            if not settings.streams:
                raise OfclError("on_bad can be changed for streams only: a dataset is read again")
            settings = make_settings({**settings.model_dump(), "on_bad": on_bad})
        settings = _on_cluster(settings, ray, path)
        if device is not None:
            settings = settings.model_copy(update={"device": device})
        run = cls.__new__(cls)
        run.directory, run._lock = directory, directory.lock()
        try:
            checkpoint = load_checkpoint(directory.checkpoints, tell)
            known = checkpoint.state["parties"] if checkpoint else None
            before = directory.start()
            start = start_from_json(before) if before else None
            stage = stage or choose_stage(settings, dataset, streams, test, Path(path), load, start)
            run._prepare(settings, stage, tell, known)
            run._resumed = True
            if not settings.streams:
                directory.check_labels(run.participants.first_labels)
                directory.check_data(run.participants.fingerprint, tell)
            if checkpoint is not None:
                run._go_back_to(checkpoint)
        except BaseException:
            run._lock.close()
            raise
        return run

    def _prepare(
        self,
        settings: Settings,
        stage: Stage,
        tell: Callable[[str], None],
        known: State | None = None,
    ) -> None:
        """Prepares the run on its stage.

        Args:
            settings: The run's settings.
            stage: Where the clients run.
            tell: Is given each line for the user.
            known: The participants' state in the checkpoint of a resumed run; None: a new run.
        """
        self._record, self._resumed = RunRecord(self.directory), False
        self._timer = SaveTimer(settings.checkpoint_every)
        self._stop = threading.Event()
        self._stage = stage
        prepared = stage.prepare(settings, known, Hooks(self._pause, self.save, tell))
        self.participants, self.engine = prepared.participants, prepared.engine
        self.settings, self.warnings = self.participants.settings, self.participants.warnings
        folder = self.directory.path if self.directory is not None else None
        self._models = SavedModels(
            folder, self.server, self.bundle, endless=bool(self.settings.streams)
        )
        self.batches, self.fitted = self.participants.batches, self.participants.fitted

    def _go_back_to(self, checkpoint: Checkpoint) -> None:
        """Puts back the state of a checkpoint, and the summary of the events before it."""
        self._record.go_back_to(checkpoint)
        try:
            self.engine.load_state(checkpoint.state["engine"])
            self.server.load_state(checkpoint.state["server"])
        except (KeyError, ValueError, RuntimeError) as error:
            raise OfclError(
                "the checkpoint does not fit the run's settings.toml; was the file changed? "
                f"({str(error).splitlines()[0]})"
            ) from error

    def __iter__(self) -> Iterator[Event]:
        """Runs the run to its end, and yields every event after it has been recorded.

        Raises:
            Interrupted: If Ctrl-C or SIGTERM stops the run; without a run directory it is a
                `KeyboardInterrupt`.
        """
        started, earlier = time.perf_counter() - self._record.seconds, self.earlier_tasks
        # The events of streams may have no end.
        self._record.begin(self._resumed, keep=not self.settings.streams)
        try:
            with stop_requested(self._stop), cpu_threads(self.settings.threads):
                for event in loop_of(self.engine, self.server):
                    self._record.add(event, time.perf_counter() - started)
                    if isinstance(event, TaskEnded):
                        self._save_pictures(event.task)
                    if isinstance(event, Evaluated) and event.task >= earlier:
                        self._save_model_of_task(event.task)
                    yield event
                    self._timer.learned(event.batches if isinstance(event, Learned) else 0)
                    if self._timer.due():
                        self.save()
                    if self._stop.is_set():
                        raise Stopped
                self.save()
                self._finish()
        except Stopped:
            self.save()
            raise self._interrupted() from None
        except StreamError as error:
            self.save()
            raise StreamError(f"{error}{self._how_to_go_on()}") from None
        finally:
            self.close()

    def _finish(self) -> None:
        """Saves the last pictures, the model and the result of a finished run.

        The model is left out if there was no round. Without a run directory, nothing is saved.
        """
        if self.directory is not None:
            self._save_pictures(self.server.task + 1, at_the_end=True)
            learned_together = self.server.round > 0
            self._models.save_at_the_end()
            server = self.server
            whole = network_alone(server.model) | server.prototypes | server.frozen
            model = whole if learned_together else None
            self.directory.save_result(self.result(), model)

    def _save_model_of_task(self, task: int) -> None:
        """Saves the global model when all clients have been tested at the end of a task.

        Args:
            task: The number of the task that a client has just been tested on.
        """
        if self._record.summary.tested_by_all(self.settings.clients, task):
            self._models.save_at_task_end(task)

    def bundle(self, *, finished: bool = False) -> Bundle:
        """Makes the bundle of the global model as it is now: all that one needs to use it.

        Args:
            finished: Whether the run is over; then errors against coverage are in it too.
        """
        changed = self._record.summary.changed
        now = self.settings.model_copy(update=changed)
        return build_bundle(
            replace(self.participants, settings=now) if changed else self.participants,
            self.result(),
            self._record.summary.classes_of_tasks(),
            finished=finished,
            epsilon=self.epsilon(),
            made_with=made_with(),
        )

    def model(self) -> TrainedModel:
        """Gives the global model as it is now, to predict with.

        Raises:
            OfclError: If there was no round yet, so that nothing was learned together, or learning
                has diverged.
        """
        if self.server.round == 0:
            raise OfclError("there was no round yet, so there is no global model to use")
        if not self._models.usable():
            raise OfclError("the global model has values that are no numbers; lower lr")
        return open_bundle(self.bundle(), trusted=True)

    def stop(self) -> None:
        """Asks the run to stop after this mini-batch, as Ctrl-C does; any thread may call it."""
        self._stop.set()

    def close(self) -> None:
        """Ends the engine, and frees the run directory for other processes."""
        self.engine.close()
        self._record.close()
        if self._lock is not None:
            self._lock.close()

    @property
    def server(self) -> Server:
        """The server with the global model."""
        return self.participants.server

    @property
    def clients(self) -> list[Client]:
        """The clients, if they learn in this process; else empty."""
        return self.participants.clients

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; a label's place in this list is its class."""
        return self.participants.labels

    @property
    def events(self) -> list[Event]:
        """The events so far, read from the run directory.

        Without a run directory they are kept in memory. Those of a run on streams, which may have
        no end, are not kept: the list is then empty, and events must be collected while the run
        goes on.
        """
        return self._record.events()

    @property
    def last_task(self) -> int:
        """The number of the last task, counted from 1; those of earlier runs are counted too."""
        return self.earlier_tasks + self.settings.tasks_in_stream

    @property
    def earlier_tasks(self) -> int:
        """The number of the tasks that were learned before this run."""
        return self.participants.earlier_tasks

    def result(self) -> Result:
        """Computes the result of the events so far; tests of earlier runs count too."""
        return self._record.summary.result(
            clients=self.settings.clients,
            tasks=None if self.settings.streams else self.earlier_tasks + self.settings.tasks,
            seconds=round(self._record.seconds, 3),
            joint=self.settings.joint,
        )

    def epsilon(self) -> float | None:
        """Computes the privacy cost ε of a client's updates so far, at δ = `dp_delta`.

        None: the run has no differential privacy.
        """
        if self.settings.dp_clip is None:
            return None
        return epsilon(self.engine.released(), self.settings.dp_noise, self.settings.dp_delta)

    def save(self) -> None:
        """Writes a checkpoint; without a run directory, or before the run has begun, none.

        A run over streams may have no end, so its model is written too if there was a round since.
        """
        with self._timer.saving():
            if self._record.is_open():
                self._record.save(self._state())
                self._models.save_with_checkpoint()

    def _state(self) -> State:
        """Gives the state of the engine, the server and the participants, for a checkpoint."""
        return {
            "engine": self.engine.state(),
            "server": self.server.state(),
            "parties": self.participants.state(),
        }

    def _save_pictures(self, task: int, at_the_end: bool = False) -> None:
        """Saves images that a generative method makes, for people to see; none for other methods.

        Args:
            task: The number of the task that has ended, for the name of the file.
            at_the_end: Whether the run is over (`Server.pictures`).
        """
        if self.directory is None:
            return
        if pictures := self.server.pictures(at_the_end=at_the_end):
            self.directory.save_pictures(task, {self.labels[c]: x for c, x in pictures.items()})

    def _pause(self, seconds: float) -> None:
        """Waits while no stream has samples; before that, saves a checkpoint if one is due.

        Args:
            seconds: How long it waits.

        Raises:
            Stopped: If Ctrl-C or SIGTERM comes meanwhile.
        """
        if self._timer.due_while_waiting():
            self.save()
        if self._stop.wait(seconds):
            raise Stopped

    def _interrupted(self) -> BaseException:
        """Makes the error of a run that Ctrl-C or SIGTERM has stopped.

        Returns:
            An `Interrupted` that names the command to resume the run; without a run directory, a
            `KeyboardInterrupt`.
        """
        if self.directory is None:
            return KeyboardInterrupt()
        return Interrupted(f"stopped; go on with: {self._resume_command(self.directory.path)}")

    def _how_to_go_on(self) -> str:
        """Gives the end of an error message, which names the command to resume the run; or ""."""
        if self.directory is None:
            return ""
        command = self._resume_command(self.directory.path)
        return f". All that was learned is saved; then: {command}"

    def _resume_command(self, path: Path) -> str:
        """Returns the command line that resumes this run, with the code that it must be allowed.

        Args:
            path: The run directory.
        """
        code = code_in(self.settings.model_dump()).values()
        allowed = "".join(f" --allow {name}" for name in dict.fromkeys(code) if is_path(name))
        return f"{self._stage.resume_command(path)}{allowed}"


def run(
    dataset: Any = None,
    *,
    streams: Sequence[Feed | Items] = (),
    test: Any = (),
    out: str | Path | None = None,
    start: Start | str | Path | None = None,
    **settings: Any,
) -> Result:
    """Runs an experiment and gives its result.

    Args:
        dataset: A dataset's name or path, an `ofcl.Dataset`, a `torch.utils.data.Dataset`, or a
            `datasets.Dataset` of the hub.
        streams: A stream for each client, instead of a dataset.
        test: Samples to test on. For streams: a file, a folder, or the samples themselves; for a
            dataset of PyTorch or the hub: another one.
        out: The run directory, where everything is saved; None: nothing is saved.
        start: The directory of an earlier run, or a model's bundle, from which this run goes on;
            None: it begins anew.
        settings: Any setting of `Settings`, by name; a run that goes on has those of the earlier
            one where none is given. A `model`, `loss`, `method`, `policy`, `score`, `augment`,
            `optimizer` or `aggregation` may be a Python object (docs/parts.md).

    >>> result = run(dataset="digits", memory=50, tasks=2, clients=2, model="mlp", limit=10)
    >>> result.rounds, result.A > 70
    (12, True)

    Instead of a dataset, every client can have a stream: any iterator of (x, y) or (x, y, task),
    samples or batches of them. Labels nobody announced are learned as they come.

    >>> import numpy as np
    >>> def readings(seed):
    ...     draw = np.random.default_rng(seed)
    ...     for n in range(200):
    ...         label = "ill" if draw.random() < 0.5 else "well"
    ...         yield draw.normal(3 if label == "ill" else 0, 1, size=4), label
    >>> result = run(streams=[readings(0), readings(1)], memory=20)
    >>> result.rounds, result.anytime_accuracy > 80
    (5, True)
    """
    if streams and isinstance(streams, list | tuple):
        settings.setdefault("clients", len(streams))
    if dataset is not None and not isinstance(dataset, str | Dataset):
        how = build_reading(make_settings(settings))
        # A test part of streams is (), that of a dataset None: nobody gave one.
        dataset, test = dataset_of(dataset, None if isinstance(test, tuple) else test, how), ()
    if dataset is not None:
        settings["dataset"] = dataset if isinstance(dataset, str) else dataset.name
    data = None if isinstance(dataset, str) else dataset
    start = read_start(start) if isinstance(start, str | Path) else start
    layers = [settings]
    if start is not None:
        named: Data = "streams" if settings.get("streams") else "dataset"
        before = inherited(start, "iterators" if streams else named)
        check_restated(before, settings)
        layers = [before, settings]
    made = make_settings(*layers)
    return _finish(Run(made, data, out, streams=streams, test=test, start=start))


def resume(
    path: str | Path,
    *,
    dataset: Dataset | None = None,
    streams: Sequence[Feed | Items] = (),
    test: TestSamples = (),
    allow: Iterable[str] = (),
    ray: str | None = None,
    **parts: Any,
) -> Result:
    """Goes on with a stopped run as if nothing had happened; of a finished one, reads the result.

    Args:
        path: The run directory.
        dataset: The dataset, if the run was given one from Python.
        streams: The streams, if the run was given some from Python (`Run.resume`).
        test: The samples to test on, if the run was given some from Python.
        allow: Paths to code that the run's settings name and that may be imported.
        ray: The address of the Ray cluster that the settings name, or `local` (`Run.resume`).
        parts: Parts of your own that the run was given from Python, by the setting's name.
    """
    result = RunDirectory(path).result()
    if result is not None:
        return result
    tell = warnings.warn
    given = Run.resume(
        path, dataset, tell=tell, streams=streams, test=test, allow=allow, parts=parts, ray=ray
    )
    return _finish(given)


def _on_cluster(settings: Settings, ray: str | None, path: str | Path) -> Settings:
    """Gives the settings with the cluster that the user names, never one that a file alone names.

    Args:
        settings: The settings of the run directory.
        ray: The address that the user gives, or `local`; None: none was given.
        path: The run directory.
    """
    if settings.ray is None and ray is None:
        return settings
    if ray is None:
        raise OfclError(
            f"the settings of '{path}' name a Ray cluster, {settings.ray!r}, which would be "
            f"called and given the run's data. If you know it: --ray {settings.ray}; to go on on "
            "this machine: --ray local"
        )
    return settings.model_copy(update={"ray": None if ray == "local" else ray})


def _take_parts(
    directory: RunDirectory, settings: Settings, allow: Iterable[str], parts: Mapping[str, Any]
) -> None:
    """Takes the parts that a run was given from Python, and checks all parts that it names.

    Args:
        directory: The run directory.
        settings: The run's settings.
        allow: Paths to code that may be imported.
        parts: The parts by their settings.
    """
    values = settings.model_dump()
    named = code_in(values)
    for kind, part in parts.items():
        if kind not in named:
            raise OfclError(f"'{directory.path}' was not given a {kind} of your own; leave it out")
        if not isinstance(part, str):
            hand_over_as(kind, named[kind], part)
    given = {named[kind] for kind in parts}
    check_allowed(values, {*allow, *given}, f"'{directory.path}'")
    check_identities(directory.description().get("parts", {}), values)


def _finish(started: Run) -> Result:
    """Runs a run to its end and gives the result; warnings of the run become Python's warnings."""
    for warning in started.warnings:
        warnings.warn(warning, stacklevel=3)
    for _ in started:
        pass
    return started.result()
