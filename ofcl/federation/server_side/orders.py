"""Orders to change settings of a run that is going on: a file that grows in the run's directory.

`ofcl federation change` adds a line; the run's process takes it at the next round's boundary. No
line is ever removed: a run that is killed and resumed knows which of them it has taken.
"""

from __future__ import annotations

import json
from pathlib import Path

from ofcl.engines.changes import CHANGEABLE
from ofcl.errors import OfclError, unknown
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.state import State
from ofcl.storage.atomic_files import write_whole
from ofcl.storage.locks import try_lock

FILE = "orders.jsonl"


class Orders:
    """The orders of a run.

    Args:
        directory: The run's directory.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._read: tuple[int, list[State]] = 0, []  # the size of the file, and its orders

    def read(self) -> list[State]:
        """Gives all orders so far, the oldest first; the file is read again only if it grew."""
        size = self._path.stat().st_size if self._path.exists() else 0
        if size != self._read[0]:
            lines = self._path.read_text(encoding="utf-8").splitlines()
            self._read = size, [json.loads(line) for line in lines]
        return self._read[1]

    def add(self, settings: Settings, values: State) -> None:
        """Adds an order.

        Args:
            settings: The settings with which the run was begun.
            values: The new values by the names of the settings.

        Raises:
            OfclError: If a setting cannot be changed within a run, or a value is not accepted.
        """
        _check(settings, values)
        lock = try_lock(self._path.with_suffix(".lock"))
        if lock is None:
            raise OfclError("another order is being written; try again")
        with lock:
            lines = [json.dumps(order) for order in [*self.read(), values]]
            write_whole(self._path, "\n".join(lines) + "\n")


def _check(settings: Settings, values: State) -> None:
    """Raises an error if settings cannot be changed to such values within a run."""
    if not values:
        raise OfclError(f"nothing to change; --set one of {', '.join(CHANGEABLE)}")
    for name in values:
        if name not in Settings.model_fields:
            raise unknown("setting", name, list(Settings.model_fields))
        if name not in CHANGEABLE:
            raise OfclError(
                f"{name} cannot be changed within a run: models, memories or what was agreed "
                f"depend on it. These can: {', '.join(CHANGEABLE)}. For {name}, stop the run and "
                "begin another"
            )
        if values[name] is None:
            raise OfclError(f"{name} needs a value")
    make_settings({**settings.model_dump(), **values})  # raises if a value is not accepted
