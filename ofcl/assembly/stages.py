"""Where a run takes place: all clients here, or in the processes of Flower's simulation.

A stage goes the whole way from settings to a prepared run. The parties of a real federation are a
stage of their own (`federation/server_side/stage.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ofcl.algorithm import Engine
from ofcl.assembly.dataset_clients import ClientFactory, dataset_participants, save_dataset
from ofcl.assembly.dealing import Loader
from ofcl.assembly.make_server import build_coded_models
from ofcl.assembly.participants import Participants
from ofcl.assembly.replaying import Replay
from ofcl.assembly.start import Start
from ofcl.assembly.step_path import find_step_path
from ofcl.assembly.stream_clients import TestSamples, stream_participants
from ofcl.data.dataset import Dataset
from ofcl.data.live.iterator_feed import Items
from ofcl.data.live.sample import Feed
from ofcl.engines.local import LocalEngine
from ofcl.engines.remote import RemoteEngine
from ofcl.errors import OfclError
from ofcl.own_parts.handed_over import handed_over
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.run_directory import CLIENTS_RUN


@dataclass(frozen=True)
class Hooks:
    """Functions of the run that stages and engines may call.

    Args:
        pause: Waits for the given number of seconds; raises if the run is to end.
        save: Writes a checkpoint.
        tell: Gets a line for the person who watches.
    """

    pause: Callable[[float], None]
    save: Callable[[], None]
    tell: Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """A run that can begin: its participants, and the engine that lets the clients learn."""

    participants: Participants
    engine: Engine


class Stage(Protocol):
    """The place of a run: this process, processes of a simulation, or real parties."""

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Builds the participants and the engine of a run from its settings.

        Args:
            settings: The run's settings.
            known: What the checkpoint of a resumed run says of its participants
                (`Participants.state`); None: the run is new.
            hooks: Functions of the run that the stage and the engine may call.

        Raises:
            OfclError: If something cannot work; nothing has been learned then.
        """

    def resume_command(self, directory: Path) -> str:
        """Returns the command line that resumes a run that was stopped.

        Args:
            directory: The run directory.
        """


@dataclass(frozen=True)
class LocalStage:
    """A stage with all clients in this process, with shares of a dataset or with streams.

    Args:
        dataset: The data; None: the dataset that the settings name.
        streams: One stream for each client, instead of a dataset; empty: the streams that the
            settings name or, if they name none, a dataset.
        test: Samples to test on, for streams.
        load: Loads the dataset that the settings name; None: a new loader.
        start: What the run goes on from; None: it begins anew.
        replay: The recorded run that is computed again, in the order of its arrivals; None: none.
    """

    dataset: Dataset | None = None
    streams: Sequence[Feed | Items] = ()
    test: TestSamples = ()
    load: Loader | None = None
    start: Start | None = None
    replay: Replay | None = None

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Builds the clients, the server and the local engine.

        Args:
            settings: The run's settings.
            known: What the checkpoint of a resumed run says of its streams; None: the run is new.
            hooks: Functions of the run that the stage and the engine may call.
        """
        if self.streams or settings.streams:
            participants = stream_participants(
                settings, self.streams, self.test, hooks.pause, known, self.start, hooks.tell
            )
        else:
            load = self.load or Loader(tell=hooks.tell)
            again = known is not None
            participants = dataset_participants(
                settings,
                self.dataset,
                load,
                start=self.start,
                again=again,
                bounded=self.replay is not None and self.replay.bounded,
            )
        settings = participants.settings
        begun = [client.learned > 0 for client in participants.clients]  # in an earlier run
        apart = self.replay is not None and self.replay.apart
        learners = [client.learner for client in participants.clients]
        participants.steps = find_step_path(learners[:1] if apart else learners)
        engine = LocalEngine(
            participants.clients,
            starts=[0 if awake else k * settings.stagger for k, awake in enumerate(begun)],
            patience=settings.patience,
            pause=hooks.pause,
            events=participants.events,
            speeds=settings.speeds,
            arrivals=self.replay.arrivals if self.replay is not None else (),
            apart=apart,
        )
        return Prepared(participants, engine)

    def resume_command(self, directory: Path) -> str:
        """Returns the command line that resumes a run that was stopped.

        Args:
            directory: The run directory.
        """
        return f"ofcl resume {directory}"


class SimulationStage:
    """A stage with the clients in the processes of Flower's simulation.

    Each client has a folder in the run directory. The processes read the data that the settings
    name; only a dataset that was handed over from Python is written to a folder for them.

    Args:
        dataset: The data; None: the dataset that the settings name.
        out: The run directory; None: a temporary folder.
        load: Loads the dataset that the settings name; None: a new loader.
    """

    def __init__(
        self, dataset: Dataset | None, out: Path | None, load: Loader | None = None
    ) -> None:
        self._dataset, self._load = dataset, load
        if out is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="ofcl-")
        self._folder = Path(out or self._temporary.name) / "clients"

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Builds the server, and the engine that sends requests to the processes with the clients.

        Args:
            settings: The run's settings.
            known: Not used: the settings say everything about the participants.
            hooks: Functions of the run that the stage and the engine may call.
        """
        from ofcl.engines.flower.simulation import Simulation

        load = self._load or Loader(tell=hooks.tell)
        participants = dataset_participants(settings, self._dataset, load, elsewhere=True)
        settings = participants.settings
        saved = None
        if self._dataset is not None:
            saved = save_dataset(self._dataset, self._folder / "data")
        make = ClientFactory(settings, saved, handed_over(settings.model_dump()))
        engine = RemoteEngine(
            settings.clients,
            Simulation(settings.clients, self._folder, make, settings.ray),
            run=CLIENTS_RUN,
            coded=build_coded_models(settings, participants.server),
            handed=participants.server.handing(),
            save=hooks.save,
        )
        return Prepared(participants, engine)

    def resume_command(self, directory: Path) -> str:
        """Returns the command line that resumes a run that was stopped.

        Args:
            directory: The run directory.
        """
        return f"ofcl resume {directory}"


def choose_stage(
    settings: Settings,
    dataset: Dataset | None = None,
    streams: Sequence[Feed | Items] = (),
    test: TestSamples = (),
    out: Path | None = None,
    load: Loader | None = None,
    start: Start | None = None,
) -> Stage:
    """Returns the stage that the settings ask for (`engine`).

    Args:
        settings: The run's settings.
        dataset: Data that were handed over from Python; None: the settings name them.
        streams: Streams that were handed over from Python; empty: the settings name them, or none.
        test: Samples to test on, for streams.
        out: The run directory; None: no records are kept.
        load: Loads the dataset that the settings name; None: a new loader.
        start: What the run goes on from; None: it begins anew.

    Raises:
        OfclError: If the engine cannot take these streams or test samples, or needs another
            command.
    """
    if test and not (streams or settings.streams):
        raise OfclError("test is for streams; a dataset has a test part of its own")
    if settings.engine == "local":
        return LocalStage(dataset, streams, test, load, start)
    if settings.engine == "flower":
        raise OfclError(
            "a run between parties is started, and gone on with, by: ofcl federation start"
        )
    if streams:
        raise OfclError(f"streams are learned here, with engine = 'local'; not {settings.engine}")
    return SimulationStage(dataset, out, load)
