"""Where a run takes place: all clients here, or in the processes of Flower's simulation.

A stage says who takes part and makes the engine that reaches them. Parties of a real federation are
a stage of their own (`federation/host.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ofcl.algorithm import Engine
from ofcl.assembly.checks import check_elsewhere
from ofcl.assembly.participants import (
    ClientFactory,
    Parties,
    dataset_parties,
    live_parties,
    save_dataset,
)
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
    """What a run does for those who work for it."""

    pause: Callable[[float], None]  # waits; ends the run if that was asked for
    save: Callable[[], None]  # writes a checkpoint
    tell: Callable[[str], None]


class Stage(Protocol):
    """Who takes part in a run, and where."""

    def parties(self, settings: Settings, known: State | None, hooks: Hooks) -> Parties:
        """Who takes part; `known` is what a run that is resumed has seen of them."""

    def engine(self, parties: Parties, hooks: Hooks) -> Engine:
        """Where they learn."""

    def go_on(self, directory: Path) -> str:
        """What to type to go on with a run that was stopped."""


@dataclass(frozen=True)
class LocalStage:
    """All clients in this process: with shares of a dataset, or with streams of their own."""

    dataset: Dataset | None = None
    streams: Sequence[Feed | Items] = ()
    test: Iterable[Any] = ()

    def parties(self, settings: Settings, known: State | None, hooks: Hooks) -> Parties:
        """Clients with their data."""
        if self.streams or settings.streams:
            return live_parties(settings, self.streams, self.test, hooks.pause, known)
        return dataset_parties(settings, self.dataset)

    def engine(self, parties: Parties, hooks: Hooks) -> Engine:
        """The local engine."""
        settings = parties.settings
        return LocalEngine(
            parties.clients,
            starts=[k * settings.stagger for k in range(settings.clients)],
            patience=settings.patience,
            pause=hooks.pause,
        )

    def go_on(self, directory: Path) -> str:
        """What to type."""
        return f"ofcl resume {directory}"


class SimulationStage(LocalStage):
    """Clients in processes of Flower's simulation, each in a folder beside what is recorded."""

    def __init__(self, dataset: Dataset | None, out: Path | None) -> None:
        super().__init__(dataset)
        if out is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="ofcl-")
        self._folder = Path(out or self._temporary.name) / "clients"

    def parties(self, settings: Settings, known: State | None, hooks: Hooks) -> Parties:
        """The server's side; clients are made in their processes."""
        return dataset_parties(settings, self.dataset, elsewhere=True)

    def engine(self, parties: Parties, hooks: Hooks) -> Engine:
        """The engine that reaches these processes."""
        from ofcl.engines.flower.simulation import Simulation

        saved = None
        if self.dataset is not None:  # it may have been read or changed in a way of its own
            saved = self._folder / "data"
            save_dataset(self.dataset, saved)
        settings = parties.settings
        make = ClientFactory(settings, saved)
        return RemoteEngine(
            settings.clients,
            Simulation(settings.clients, self._folder, make, settings.ray),
            run=CLIENTS_RUN,
            save=hooks.save,
        )


def find_stage(
    settings: Settings,
    dataset: Dataset | None,
    streams: Sequence[Feed | Items],
    test: Iterable[Any],
    out: Path | None,
) -> Stage:
    """The stage that the settings ask for."""
    if test and not (streams or settings.streams):
        raise OfclError("test is for streams; a dataset has a test part of its own")
    if settings.engine == "local":
        return LocalStage(dataset, streams, test)
    if settings.engine == "flower":
        raise OfclError(
            "a run between parties is started, and gone on with, by: ofcl federation start"
        )
    check_elsewhere(settings, bool(streams))
    return SimulationStage(dataset, out)
