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
from ofcl.assembly.participants import Participants
from ofcl.assembly.stream_clients import TestSamples, stream_participants
from ofcl.data.dataset import Dataset
from ofcl.data.live.iterator_feed import Items
from ofcl.data.live.sample import Feed
from ofcl.engines.local import LocalEngine
from ofcl.engines.remote import RemoteEngine
from ofcl.errors import OfclError
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.run_directory import CLIENTS_RUN


@dataclass(frozen=True)
class Hooks:
    """Functions of the run that stages and engines may call.

    Args:
        pause: Waits for so many seconds; raises if the run is to end.
        save: Writes a checkpoint.
        tell: Gets a line for the person who watches.
    """

    pause: Callable[[float], None]
    save: Callable[[], None]
    tell: Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """A run that can begin: who takes part, and the engine that lets them learn."""

    participants: Participants
    engine: Engine


class Stage(Protocol):
    """Where a run takes place."""

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Goes from settings to a prepared run.

        Args:
            settings: The run's settings.
            known: What the checkpoint of a resumed run knows of its participants; None: it is new.
            hooks: What the run does for its parts.

        Raises:
            OfclError: If something cannot work; nothing has been learned then.
        """

    def resume_command(self, directory: Path) -> str:
        """Says what to type to go on with a run that was stopped."""


@dataclass(frozen=True)
class LocalStage:
    """All clients in this process, with shares of a dataset or with streams of their own.

    Args:
        dataset: The data; None: those that the settings name.
        streams: One a client, instead of a dataset; empty: those that the settings name, if any.
        test: Samples to test on, for streams.
        load: Loads the dataset that the settings name; None: a loader of its own.
    """

    dataset: Dataset | None = None
    streams: Sequence[Feed | Items] = ()
    test: TestSamples = ()
    load: Loader | None = None

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Makes the clients, the server and the local engine."""
        if self.streams or settings.streams:
            participants = stream_participants(
                settings, self.streams, self.test, hooks.pause, known
            )
        else:
            load = self.load or Loader(tell=hooks.tell)
            participants = dataset_participants(settings, self.dataset, load)
        settings = participants.settings
        engine = LocalEngine(
            participants.clients,
            starts=[number * settings.stagger for number in range(settings.clients)],
            patience=settings.patience,
            pause=hooks.pause,
        )
        return Prepared(participants, engine)

    def resume_command(self, directory: Path) -> str:
        """Says what to type to go on with a run that was stopped."""
        return f"ofcl resume {directory}"


class SimulationStage:
    """Clients in the processes of Flower's simulation, each in a folder beside the run's records.

    The processes read the data that the settings name; only a dataset that was handed over from
    Python is written beside them.

    Args:
        dataset: The data; None: those that the settings name.
        out: The run directory; None: a temporary folder.
        load: Loads the dataset that the settings name; None: a loader of its own.
    """

    def __init__(
        self, dataset: Dataset | None, out: Path | None, load: Loader | None = None
    ) -> None:
        self._dataset, self._load = dataset, load
        if out is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="ofcl-")
        self._folder = Path(out or self._temporary.name) / "clients"

    def prepare(self, settings: Settings, known: State | None, hooks: Hooks) -> Prepared:
        """Makes the server and the engine that reaches the processes, which make the clients."""
        from ofcl.engines.flower.simulation import Simulation

        load = self._load or Loader(tell=hooks.tell)
        participants = dataset_participants(settings, self._dataset, load, elsewhere=True)
        settings = participants.settings
        saved = None
        if self._dataset is not None:
            saved = save_dataset(self._dataset, self._folder / "data")
        make = ClientFactory(settings, saved)
        engine = RemoteEngine(
            settings.clients,
            Simulation(settings.clients, self._folder, make, settings.ray),
            run=CLIENTS_RUN,
            save=hooks.save,
        )
        return Prepared(participants, engine)

    def resume_command(self, directory: Path) -> str:
        """Says what to type to go on with a run that was stopped."""
        return f"ofcl resume {directory}"


def choose_stage(
    settings: Settings,
    dataset: Dataset | None = None,
    streams: Sequence[Feed | Items] = (),
    test: TestSamples = (),
    out: Path | None = None,
    load: Loader | None = None,
) -> Stage:
    """Chooses the stage that the settings ask for (`engine`).

    Args:
        settings: The run's settings.
        dataset: Data that were handed over from Python.
        streams: Streams that were handed over from Python.
        test: Samples to test on, for streams.
        out: The run directory.
        load: Loads the dataset that the settings name.
    """
    if test and not (streams or settings.streams):
        raise OfclError("test is for streams; a dataset has a test part of its own")
    if settings.engine == "local":
        return LocalStage(dataset, streams, test, load)
    if settings.engine == "flower":
        raise OfclError(
            "a run between parties is started, and gone on with, by: ofcl federation start"
        )
    if streams:
        raise OfclError(f"streams are learned here, with engine = 'local'; not {settings.engine}")
    return SimulationStage(dataset, out, load)
