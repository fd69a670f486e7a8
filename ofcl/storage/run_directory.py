"""The run directory: what a run leaves on disk, written so that a crash loses nothing.

    settings.toml   complete: with versions, seed and vocabulary; enough to run it again
    events.jsonl    what happened, one line each, only ever appended to
    checkpoint/     the last two states: safetensors + JSON, never pickle
    pictures/       of generative methods: what they make at the end of each task
    model.safetensors, result.json   at the end

A process that is killed may have written events after its last checkpoint. The resumed run says in
a line `resumed` how many events the checkpoint knew of; readers drop those behind that count.
"""

from __future__ import annotations

import fcntl
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from safetensors.torch import save_file
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.evaluation.results import Result
from ofcl.settings.files import VERSION, load_settings, to_toml
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.state import State, Tensors, flatten
from ofcl.storage.atomic_files import ends_with_newline, explained, write_whole
from ofcl.storage.image_grid import grid

CLIENTS_RUN = "run"  # what clients in other processes call the run: they have no other here


class RunDirectory:
    """One run on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    # Making and opening

    def check_new(self) -> None:
        """Refuses a directory that has something in it."""
        # Of a process that was killed right here, and what clients elsewhere are to find.
        left = {"settings.toml.partial", "clients"}
        if self.path.exists() and (
            not self.path.is_dir() or self.started() or {p.name for p in self.path.iterdir()} - left
        ):
            run = (self.path / "settings.toml").exists()
            choices = f"go on with it: ofcl resume {self.path}; or " if run else ""
            raise OfclError(f"'{self.path}' exists; {choices}give another directory with --out")

    def create(
        self,
        settings: Settings,
        labels: tuple[str, ...],
        form: State,
        made_with: State,
        fingerprint: str = "",
    ) -> None:
        """Makes the directory of a new run."""
        self.check_new()
        values = {"version": VERSION, **settings.model_dump(), "labels": list(labels)}
        told = {"fingerprint": fingerprint, "form": form, "made_with": made_with}
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / "settings.toml", to_toml({**values, **told}))

    def started(self) -> bool:
        """Whether there is a run here, finished or not."""
        return (self.path / "settings.toml").exists()

    def settings(self) -> Settings:
        """The settings it was made with."""
        return make_settings(load_settings(self._settings_file()))

    def check_labels(self, labels: tuple[str, ...]) -> None:
        """Refuses data with another vocabulary than the run's."""
        saved = self.description().get("labels")
        if saved != list(labels):
            raise OfclError(
                f"'{self.path}' was made with the labels {saved}, but the data have {list(labels)}"
            )

    def check_data(self, fingerprint: str, tell: Callable[[str], None]) -> None:
        """Refuses other data than the run's: their rows, or the split, may be others."""
        saved = self.description().get("fingerprint")
        if saved is None and fingerprint:
            tell(f"'{self.path}' was begun by an earlier version, which read tables and images of "
                 "more than 8 bits otherwise: what it learns from now on may not fit")  # fmt: skip
        if saved and fingerprint and saved != fingerprint:
            raise OfclError(
                f"the data are not those with which '{self.path}' was made: rows were added or "
                "changed, or they are read in another way. Restore them; data that were made in "
                "Python are given again: ofcl.resume(…, dataset=…)"
            )

    def description(self) -> dict[str, Any]:
        """All that its settings file says: the settings, labels, form, what it was made with."""
        return tomllib.loads(self._settings_file().read_text(encoding="utf-8"))

    def _settings_file(self) -> Path:
        path = self.path / "settings.toml"
        if not path.exists():
            raise OfclError(f"'{self.path}' is not a run directory: it has no settings.toml")
        return path

    def lock(self) -> IO[str]:
        """Refuses to let two processes work on one run; free again when the file is closed."""
        with explained(self.path):
            file = (self.path / "lock").open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise OfclError(f"'{self.path}' is in use by another process") from None
            return file

    # Events

    def open_events(self) -> IO[str]:
        """The event file, to append to; a line that a crash has cut short is ended first."""
        path = self.path / "events.jsonl"
        torn = path.exists() and path.stat().st_size > 0 and not ends_with_newline(path)
        file = path.open("a", encoding="utf-8", buffering=1)
        if torn:
            file.write("\n")
        return file

    def events(self) -> list[dict[str, Any]]:
        """All events that count, as plain values: without those that a resumed run did again."""
        path = self.path / "events.jsonl"
        if not path.exists():
            return []
        events: list[dict[str, Any]] = []
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                value = json.loads(line)
            except json.JSONDecodeError:  # cut short by a crash, before the run was resumed
                continue
            match value:
                case {"event": "resumed", "after": int(after)}:
                    del events[after:]
                case {"event": str()}:
                    events.append(value)
        return events

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints."""
        return self.path / "checkpoint"

    def client_folders(self, clients: int) -> list[Path]:
        """Where clients in other processes keep their checkpoints, whether or not there are any."""
        return [self.path / "clients" / str(number) / CLIENTS_RUN for number in range(clients)]

    def save_pictures(self, task: int, pictures: dict[str, Tensor]) -> None:
        """Writes images that a generator makes, a row a class, as `pictures/task-<n>.png`."""
        folder = self.path / "pictures"
        with explained(self.path):
            folder.mkdir(exist_ok=True)
            grid(pictures).save(folder / f"task-{task}.png")

    # The end

    def save_result(self, result: Result, model: Tensors) -> None:
        """Writes the global model and `result.json`, the sign that the run is finished."""
        tensors, _ = flatten(dict(model))
        with explained(self.path):
            save_file(tensors, self.path / "model.partial")
            (self.path / "model.partial").rename(self.path / "model.safetensors")
            write_whole(self.path / "result.json", json.dumps(result.to_json(), indent=1) + "\n")

    def result(self) -> Result | None:
        """The result; None if the run is not finished."""
        path = self.path / "result.json"
        if not path.exists():
            return None
        try:
            return Result(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise OfclError(f"'{path}' cannot be read: {error}") from None
