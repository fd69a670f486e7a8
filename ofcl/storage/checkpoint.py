"""The checkpoints of a run: each is complete or absent, and the last two are kept.

A checkpoint is a folder `<number of events>/` with the files of a state (`state_files`). It is
written under another name and then renamed, and its checksum shows damage when it is read. Samples
may arrive without an event, so there can be several states of the same number of events. The later
ones are called `<number>.001`, `<number>.002` and so on.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError

from ofcl.errors import OfclError
from ofcl.state import State
from ofcl.storage.atomic_files import explained, sync
from ofcl.storage.encryption import Seal
from ofcl.storage.state_files import (
    DAMAGE,
    is_sealed,
    is_whole,
    read_state,
    saved_checksum,
    write_state,
)

KEPT = 2
NAME = r"(\d{9})(?:\.(\d{3,}))?"


class Checkpoint(NamedTuple):
    """The state of a run at one moment.

    Attributes:
        events: The number of events before that moment.
        seconds: How long the run had taken, over all its processes.
        state: Everything in the run that changes.
    """

    events: int
    seconds: float
    state: State


def save_checkpoint(folder: Path, checkpoint: Checkpoint, seal: Seal | None = None) -> None:
    """Writes a checkpoint, and deletes all others but the one before it.

    If the same state is saved already, nothing is written or deleted.

    Args:
        folder: The folder of the run's checkpoints.
        checkpoint: The checkpoint.
        seal: Encrypts the checkpoint; then checkpoints that are not encrypted are all deleted.
            None: it is not encrypted.
    """
    partial = folder / "partial"
    with explained(folder.parent):
        try:
            checksum = _write_partial(folder, checkpoint, seal)
            target = _choose_place(folder, checkpoint.events, checksum, seal)
            if is_whole(target, seal):  # a resumed run has come here again, with the same state
                shutil.rmtree(partial)
                return
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
            sync(folder)
        except (OSError, SafetensorError):
            shutil.rmtree(partial, ignore_errors=True)
            raise
    paths = _newest_first(folder)
    place = paths.index(target)
    # Newer ones than this are damaged: otherwise the run would have gone on from them.
    for other in [*paths[:place], *paths[place + KEPT :]]:
        shutil.rmtree(other, ignore_errors=True)
    if seal is not None:
        for other in paths:
            if not is_sealed(other):
                shutil.rmtree(other, ignore_errors=True)


class AllDamaged(OfclError):
    """Raised if all checkpoints of a run are damaged.

    Args:
        folder: The folder of the run's checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"every checkpoint in '{folder}' is damaged; nothing was changed. Restore one from a "
            "backup, or run anew with another --out"
        )
        self.folder = folder


def load_checkpoint(
    folder: Path, tell: Callable[[str], None], seal: Seal | None = None
) -> Checkpoint | None:
    """Reads the newest checkpoint that is not damaged.

    Args:
        folder: The folder of the run's checkpoints.
        tell: Receives a line about each damaged checkpoint, which is left as it is.
        seal: Decrypts the checkpoints; None if they are not encrypted.

    Returns:
        The checkpoint; None if the folder has none.

    Raises:
        AllDamaged: If all checkpoints are damaged.
    """
    paths = _newest_first(folder)
    for path in paths:
        try:
            return _read(path, seal)
        except DAMAGE as error:
            tell(f"checkpoint '{path}' is damaged ({error}); looking at the one before it")
    if paths:
        raise AllDamaged(folder)
    return None


def newest(folder: Path) -> int | None:
    """Returns the number of events of the newest checkpoint, without reading it.

    Args:
        folder: The folder of the run's checkpoints.

    Returns:
        The number; None if there is no checkpoint.
    """
    paths = _newest_first(folder)
    return _number(paths[0])[0] if paths else None


def rewrite(folder: Path, change: Callable[[State], None], seal: Seal | None = None) -> int:
    """Changes the state in every checkpoint.

    Args:
        folder: The folder of the run's checkpoints.
        change: Changes a state in place.
        seal: Decrypts and encrypts the checkpoints; None if they are not encrypted.

    Returns:
        The number of checkpoints that were changed.

    Raises:
        OfclError: If a checkpoint is damaged. Then no checkpoint is changed.
    """
    paths = _newest_first(folder)
    checkpoints = [_read_or_refuse(path, seal) for path in paths]  # all, before any is changed
    for path, checkpoint in zip(paths, checkpoints, strict=True):
        change(checkpoint.state)
        _replace(path, checkpoint, seal)
    _delete_partial(folder)
    return len(paths)


def encrypt_plain(folder: Path, seal: Seal) -> list[Path]:
    """Encrypts the checkpoints of a run that were saved unencrypted.

    Args:
        folder: The folder of the run's checkpoints.
        seal: Encrypts the checkpoints.

    Returns:
        The damaged checkpoints, which are left as they are; [] if there are none.
    """
    damaged = []
    for path in _newest_first(folder):
        if is_sealed(path):
            continue
        try:
            checkpoint = _read(path, seal)
        except DAMAGE:
            damaged.append(path)
        else:
            _replace(path, checkpoint, seal)
    _delete_partial(folder)
    return damaged


def _newest_first(folder: Path) -> list[Path]:
    """Lists the folders of the checkpoints, the newest first; [] if `folder` does not exist."""
    if not folder.exists():
        return []
    named = (path for path in folder.iterdir() if re.fullmatch(NAME, path.name))
    return sorted(named, key=_number, reverse=True)


def _number(path: Path) -> tuple[int, int]:
    """Reads the two numbers in a checkpoint's name: `000000012.003` → (12, 3).

    The first is the number of events. The second counts the states with that number of events; it
    is 0 if the name has none.
    """
    events, state = re.fullmatch(NAME, path.name).groups()  # type: ignore[union-attr]
    return int(events), int(state or 0)


def _choose_place(folder: Path, events: int, checksum: str, seal: Seal | None) -> Path:
    """Chooses the folder for a new checkpoint.

    Args:
        folder: The folder of the run's checkpoints.
        events: The number of events in the new checkpoint.
        checksum: The checksum of the new checkpoint.
        seal: Decrypts the checkpoints; None if they are not encrypted.

    Returns:
        The newest undamaged checkpoint of as many events, if it has the same checksum; otherwise a
        path where no undamaged checkpoint is.
    """
    alike = (path for path in _newest_first(folder) if _number(path)[0] == events)
    newest = next((path for path in alike if is_whole(path, seal)), None)
    if newest is None:
        return folder / f"{events:09d}"
    if checksum == saved_checksum(newest, seal):
        return newest
    state = _number(newest)[1] + 1
    return folder / f"{events:09d}.{state:03d}"


def _write_partial(folder: Path, checkpoint: Checkpoint, seal: Seal | None) -> str:
    """Writes a checkpoint into the subfolder `partial`, which is never read; returns its checksum.

    Args:
        folder: The folder of the run's checkpoints.
        checkpoint: The checkpoint.
        seal: Encrypts the checkpoint; None: it is not encrypted.
    """
    partial = folder / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    about = {"events": checkpoint.events, "seconds": checkpoint.seconds}
    return write_state(partial, about, checkpoint.state, seal)


def _delete_partial(folder: Path) -> None:
    """Deletes the subfolder `partial`, an incomplete checkpoint that a killed process may leave."""
    shutil.rmtree(folder / "partial", ignore_errors=True)


def _replace(path: Path, checkpoint: Checkpoint, seal: Seal | None) -> None:
    """Replaces a checkpoint by another one.

    Args:
        path: The folder of the old checkpoint.
        checkpoint: The new checkpoint.
        seal: Encrypts the new checkpoint; None: it is not encrypted.
    """
    _write_partial(path.parent, checkpoint, seal)
    aside = path.with_name("changed")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    (path.parent / "partial").rename(path)
    shutil.rmtree(aside)
    sync(path.parent)


def _read(path: Path, seal: Seal | None) -> Checkpoint:
    """Reads the checkpoint in a folder; raises an error of `DAMAGE` if it is damaged."""
    about, state = read_state(path, seal)
    return Checkpoint(about["events"], about["seconds"], state)


def _read_or_refuse(path: Path, seal: Seal | None) -> Checkpoint:
    """Reads the checkpoint in a folder; if it is damaged, raises an error that says what to do."""
    try:
        return _read(path, seal)
    except DAMAGE as error:
        raise OfclError(
            f"checkpoint '{path}' is damaged ({error}): what it holds cannot be told. Delete it if "
            "the other one is enough, and try again"
        ) from None
