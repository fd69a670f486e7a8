"""The models that a run leaves in its directory: at the ends of tasks, and at its own end."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ofcl.bundle.bundle_files import Bundle, write_folder
from ofcl.bundle.open_bundle import FINAL, OF_TASKS, keep_newest
from ofcl.server import Server
from ofcl.storage.atomic_files import explained

KEPT_OF_STREAMS = 2  # models of task ends, and as many of checkpoints


class MakeBundle(Protocol):
    """A function that makes the bundle of the global model as it is now."""

    def __call__(self, *, finished: bool = False) -> Bundle:
        """Makes the bundle.

        Args:
            finished: Whether the run is over.
        """


class SavedModels:
    """Writes the global model to the run directory as a bundle.

    Args:
        folder: The run directory; None: nothing is written.
        server: The server with the global model.
        make: Makes the bundle of that model.
        endless: Whether the run is over streams, which may have no end. Then a model is saved with
            checkpoints too, and of each kind only the last two stay.
    """

    def __init__(
        self, folder: Path | None, server: Server, make: MakeBundle, *, endless: bool
    ) -> None:
        self._folder, self._server, self._make, self._endless = folder, server, make, endless
        self._round = 0  # of the last model that was saved with a checkpoint

    def usable(self) -> bool:
        """Tells whether the global model can be used: a round was held, and it has not diverged."""
        values = self._server.model.values()
        return self._server.round > 0 and all(bool(value.isfinite().all()) for value in values)

    def save_at_task_end(self, task: int) -> None:
        """Saves the model when all clients have been tested at the end of a task.

        Args:
            task: The number of the task, from 0.
        """
        self._save("task", task + 1)

    def save_with_checkpoint(self) -> None:
        """Saves the model of an endless run, if there was a round since the last checkpoint."""
        if self._endless and self._server.round > self._round:
            self._round = self._server.round
            self._save("round", self._round)

    def save_at_the_end(self) -> None:
        """Saves the model of a run that is over."""
        if self._folder is not None and self.usable():
            with explained(self._folder):
                write_folder(self._make(finished=True), self._folder / FINAL)

    def _save(self, word: str, number: int) -> None:
        """Saves the model in the folder of models, called by a word and a number."""
        if self._folder is None or not self.usable():
            return
        folder = self._folder / OF_TASKS
        with explained(self._folder):
            write_folder(self._make(), folder / f"{word}-{number}")
            if self._endless:
                keep_newest(folder, word, KEPT_OF_STREAMS)
