"""Computes a recorded run of buffered rounds again on one machine: settings, and who came when."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofcl.buffered import arrivals_of
from ofcl.errors import OfclError
from ofcl.events import Changed, from_json
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory


@dataclass(frozen=True)
class Replay:
    """A recorded run that is computed again.

    Args:
        settings: The recorded run's settings.
        arrivals: The clients in the order in which their updates arrived.
    """

    settings: Settings
    arrivals: tuple[int, ...]

    @property
    def apart(self) -> bool:
        """Whether each client of the recorded run was in a process of its own."""
        return self.settings.engine != "local"

    @property
    def bounded(self) -> bool:
        """Whether the recorded run's server did not trust the clients."""
        return self.settings.engine == "flower"

    def values(self, given: dict[str, Any]) -> dict[str, Any]:
        """Gives the settings of a run on this machine that repeats the recorded one.

        Args:
            given: Settings that are stated anew: where the data are, the device.

        Raises:
            OfclError: If the data of the recorded run's parties are not given.
        """
        if self.bounded and "dataset" not in given:
            raise OfclError(
                "the data of a run between parties are theirs: give the dataset of which each "
                "had its share (--dataset)"
            )
        here = {"engine": "local", "speeds": (), "cross_site": False}
        return {**self.settings.model_dump(), **here, **given}


def read_replay(path: str | Path) -> Replay:
    """Reads a recorded run that is to be computed again.

    Args:
        path: The run directory; the run need not be finished.

    Raises:
        OfclError: If its rounds waited for all clients, so that there is no order to repeat, or if
            it cannot come out the same.
    """
    directory = RunDirectory(path)
    settings = directory.settings()
    if settings.rounds != "buffered":
        raise OfclError(
            f"'{path}' has rounds = '{settings.rounds}': its settings alone give the same run "
            "again; --replay is for rounds = 'buffered'"
        )
    if settings.streams:
        raise OfclError(f"'{path}' has learned from streams, which come only once")
    if settings.engine == "flower" and settings.dp_clip is not None and settings.dp_noise:
        raise OfclError(
            f"'{path}' has dp_noise = {settings.dp_noise}, which each party draws in secret; only "
            "a run without noise can be computed again"
        )
    events = list(map(from_json, directory.iterate_events()))
    if any(isinstance(event, Changed) for event in events):
        raise OfclError(
            f"settings of '{path}' were changed while it went on; only a run with the same "
            "settings from its beginning to its end can be computed again"
        )
    return Replay(settings, tuple(arrivals_of(events)))
