"""The run directory: the files of a run, written so that a crash loses nothing.

    settings.toml   complete: with versions, seed and vocabulary; enough to run it again
    events.jsonl    the events, one line each; lines are only ever appended (`event_files`)
    checkpoint/     the last two states: safetensors + JSON, never pickle
    start.json      of a run that goes on from an earlier one: what it needs to know of that one
    pictures/       samples that generative methods make at the end of each task
    model.safetensors, result.json   written when the run is finished

A process that is killed may have written events after its last checkpoint. The resumed run writes a
line `resumed` with the number of events up to that checkpoint; readers drop the later ones.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
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
from ofcl.storage.checkpoint import Checkpoint, save_checkpoint
from ofcl.storage.event_files import EarlierEvents, counted_events, earlier_events
from ofcl.storage.image_grid import grid
from ofcl.storage.locks import Lock, try_lock

START = "start.json"
CLIENTS_RUN = "run"  # the name of the run in the folders of clients in other processes


class InUse(OfclError):
    """Raised when another process has locked a run."""


class RunDirectory:
    """The files of one run.

    Args:
        path: The folder of the run; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    # Making and opening

    def check_new(self) -> None:
        """Raises an error if the directory already contains a run or other files."""
        # A process that was killed in `create` leaves the first four, clients elsewhere the last.
        left = {"settings.toml.partial", "start.json.partial", START, "checkpoint", "clients"}
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
        parts: dict[str, str] | None = None,
        start: State | None = None,
        state: State | None = None,
    ) -> None:
        """Makes the directory of a new run, with its `settings.toml`, which is written last.

        Args:
            settings: The settings of the run.
            labels: The vocabulary: the label of each class.
            form: The form of the samples (shape, normalisation); data to be predicted later must
                have it too.
            made_with: The versions of ofcl, Python and PyTorch, and the device.
            fingerprint: A checksum of the data; empty if the data cannot be compared later.
            parts: The identities of parts of the user's own (`own_parts/part_identity.py`).
            start: What a run that goes on from an earlier one must know of it, as plain values;
                None: the run begins anew.
            state: The state in which such a run begins, for its first checkpoint.
        """
        self.check_new()
        values = {"version": VERSION, **settings.model_dump(), "labels": list(labels)}
        described: State = {"fingerprint": fingerprint, "form": form, "made_with": made_with}
        if parts:
            described["parts"] = parts
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self.checkpoints, ignore_errors=True)
            (self.path / START).unlink(missing_ok=True)
            if start is not None and state is not None:
                save_checkpoint(self.checkpoints, Checkpoint(0, 0.0, state))
                write_whole(self.path / START, json.dumps(start, indent=1) + "\n")
                described["went_on"] = {"model": start["digest"], "tasks": start["first_task"]}
            write_whole(self.path / "settings.toml", to_toml({**values, **described}))

    def started(self) -> bool:
        """Says whether the directory contains a run, finished or not."""
        return (self.path / "settings.toml").exists()

    def settings(self) -> Settings:
        """Reads the settings with which the run was made.

        Raises:
            OfclError: If the directory contains no run.
        """
        return make_settings(load_settings(self._settings_file()))

    def start(self) -> State | None:
        """Reads what the run knows of an earlier one, from which it went on; None: of none.

        Raises:
            OfclError: If the file is damaged.
        """
        path = self.path / START
        if not path.exists():
            return None
        try:
            values: State = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise OfclError(f"'{path}' cannot be read: {error}") from None
        return values

    def earlier_tasks(self) -> int:
        """Reads how many tasks were learned in the runs from which this one went on."""
        return int(self.description().get("went_on", {}).get("tasks", 0))

    def check_labels(self, labels: tuple[str, ...]) -> None:
        """Raises an error if the labels of data differ from those of the run.

        Args:
            labels: The label of each class of the data.
        """
        saved = self.description().get("labels")
        if saved != list(labels):
            raise OfclError(
                f"'{self.path}' was made with the labels {saved}, but the data have {list(labels)}"
            )

    def check_data(self, fingerprint: str, tell: Callable[[str], None]) -> None:
        """Raises an error if the data are not those that the run began with.

        Args:
            fingerprint: The checksum of the data; empty: they are not compared.
            tell: Receives a warning if the run was begun by an earlier version, which saved no
                checksum.
        """
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
        """Reads all of `settings.toml`: settings, labels, form of the samples, versions.

        Raises:
            OfclError: If the directory contains no run.
        """
        return tomllib.loads(self._settings_file().read_text(encoding="utf-8"))

    def _settings_file(self) -> Path:
        """Returns the path of `settings.toml`; raises an error if it does not exist."""
        path = self.path / "settings.toml"
        if not path.exists():
            raise OfclError(f"'{self.path}' is not a run directory: it has no settings.toml")
        return path

    def lock(self) -> Lock:
        """Locks the run, so that no second process works on it.

        Returns:
            The lock; closing it unlocks the run.

        Raises:
            InUse: If another process has locked the run.
            OfclError: If a link leads out of the directory (`check_links`).
        """
        self.check_links()
        with explained(self.path):
            lock = try_lock(self.path / "lock")
        if lock is None:
            raise InUse(f"'{self.path}' is in use by another process")
        return lock

    def check_links(self) -> None:
        """Checks that no link in the directory leads out of it.

        The directory may be somebody else's: what such a link points to would be read and written.

        Raises:
            OfclError: If there is such a link.
        """
        within = self.path.resolve()
        for folder, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                path = Path(folder) / name
                if path.is_symlink() and not path.resolve().is_relative_to(within):
                    raise OfclError(
                        f"'{path}' is a link out of the run's directory: the run would write to "
                        "what it points to. Delete it, and look what put it there"
                    )

    # Events

    def open_events(self) -> IO[str]:
        """Opens the event file for appending, after a line that a crash has cut short is ended."""
        path = self.path / "events.jsonl"
        torn = path.exists() and path.stat().st_size > 0 and not ends_with_newline(path)
        file = path.open("a", encoding="utf-8", buffering=1)
        if torn:
            file.write("\n")
        return file

    def events(self) -> list[dict[str, Any]]:
        """Reads the events as plain values, without those that a resumed run has done again."""
        return list(self.iterate_events())

    def iterate_events(self) -> Iterator[dict[str, Any]]:
        """Yields the events that `events` returns, one at a time, to save memory in long runs.

        Of a run over streams, the earliest may be summed up already (`event_files`).
        """
        for _, value in counted_events(self.path):
            yield value

    def earlier_events(self) -> EarlierEvents:
        """Reads the sums of events of an endless run whose files are deleted."""
        return earlier_events(self.path)

    @property
    def checkpoints(self) -> Path:
        """The folder of the run's checkpoints."""
        return self.path / "checkpoint"

    def client_folders(self, clients: int) -> list[Path]:
        """Returns the checkpoint folder of each client in another process; it need not exist.

        Args:
            clients: The number of clients.
        """
        return [self.path / "clients" / str(number) / CLIENTS_RUN for number in range(clients)]

    def save_pictures(self, task: int, pictures: dict[str, Tensor]) -> None:
        """Writes generated images as `pictures/task-<task>.png`, one row for each class.

        Args:
            task: The number of the task that has ended.
            pictures: The images of each label, (n, channels, height, width), from 0 to 1.
        """
        folder = self.path / "pictures"
        with explained(self.path):
            folder.mkdir(exist_ok=True)
            grid(pictures).save(folder / f"task-{task}.png")

    # The end

    def save_result(self, result: Result, model: Tensors | None) -> None:
        """Writes the global model, then `result.json`, which marks the run as finished.

        Args:
            result: The result of the run.
            model: The named tensors of the global model; None: no round was held, and no model is
                written.
        """
        with explained(self.path):
            if model is not None:
                save_file(flatten(dict(model))[0], self.path / "model.partial")
                (self.path / "model.partial").replace(self.path / "model.safetensors")
            write_whole(self.path / "result.json", json.dumps(result.to_json(), indent=1) + "\n")

    def result(self) -> Result | None:
        """Reads the result; returns None if the run is not finished.

        Raises:
            OfclError: If the file of the result is damaged.
        """
        path = self.path / "result.json"
        if not path.exists():
            return None
        try:
            return Result(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise OfclError(f"'{path}' cannot be read: {error}") from None
