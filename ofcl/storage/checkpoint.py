"""Checkpoints: safetensors + JSON, never pickle; each is there whole or not at all.

A checkpoint is a folder `<number of events>/` with `tensors.safetensors` and `state.json`. It is
written under another name, synced and renamed, and carries a checksum over both files, so that
damage is seen when it is read. The last two are kept. Samples may arrive without an event: a later
state of the same number of events is `<number>.001`, and so on. With a seal both files are
encrypted, and called `tensors.sealed` and `state.sealed`.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, load_file, save, save_file

from ofcl.errors import OfclError
from ofcl.state import State, flatten, unflatten
from ofcl.storage.atomic_files import explained, sync, write_whole
from ofcl.storage.encryption import Seal

KEPT = 2
NAME = r"(\d{9})(?:\.(\d{3,}))?"

_DAMAGE = (OSError, ValueError, KeyError, TypeError, SafetensorError)  # what reading can meet


class Checkpoint(NamedTuple):
    """The state of a run, and how far it had come."""

    events: int
    seconds: float
    state: State


def save_checkpoint(folder: Path, checkpoint: Checkpoint, seal: Seal | None = None) -> None:
    """Writes a checkpoint beside the others, then makes it count by renaming; keeps two."""
    partial = folder / "partial"
    with explained(folder.parent):
        try:
            partial = _written(folder, checkpoint, seal)
            target = _place(folder, checkpoint.events, _digest_of(partial, seal), seal)
            if _is_whole(target, seal):  # a resumed run has come here again: it is the same state
                shutil.rmtree(partial)
                return
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
            sync(folder)
        except (OSError, SafetensorError):
            shutil.rmtree(partial, ignore_errors=True)
            raise
    # A checkpoint from farther on was damaged, or this run would have gone on from there.
    found = _found(folder)
    place = found.index(target)
    for other in [*found[:place], *found[place + KEPT :]]:
        shutil.rmtree(other, ignore_errors=True)
    if seal is not None:  # nothing of before stays readable
        for other in found:
            if not _is_sealed(other):
                shutil.rmtree(other, ignore_errors=True)


def _written(folder: Path, checkpoint: Checkpoint, seal: Seal | None) -> Path:
    """A checkpoint under another name, which does not count yet."""
    partial = folder / "partial"
    tensors, tree = flatten(checkpoint.state)
    content = json.dumps(
        {"events": checkpoint.events, "seconds": checkpoint.seconds, "state": tree}
    )
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    if seal is not None:
        encoded = save(tensors)
        digest = _digest(content, io.BytesIO(encoded))
        whole = f'{{"sha256": "{digest}", "content": {content}}}'
        _write_sealed(partial / "tensors.sealed", encoded, seal)
        _write_sealed(partial / "state.sealed", whole.encode(), seal)
        return partial
    save_file(tensors, partial / "tensors.safetensors")
    sync(partial / "tensors.safetensors")
    with (partial / "tensors.safetensors").open("rb") as file:
        digest = _digest(content, file)
    write_whole(partial / "state.json", f'{{"sha256": "{digest}", "content": {content}}}')
    return partial


def _write_sealed(path: Path, content: bytes, seal: Seal) -> None:
    path.write_bytes(seal.sealed(content))
    sync(path)


def _is_sealed(path: Path) -> bool:
    return (path / "state.sealed").exists()


def _text(path: Path, seal: Seal | None) -> str:
    """The file `state` of a checkpoint."""
    if not _is_sealed(path):
        return (path / "state.json").read_text(encoding="utf-8")
    if seal is None:
        raise OfclError(f"'{path}' is encrypted; give the file of its key with --key-file")
    return seal.opened((path / "state.sealed").read_bytes()).decode()


def _digest_of(path: Path, seal: Seal | None) -> str:
    return str(json.loads(_text(path, seal))["sha256"])


def load_checkpoint(
    folder: Path, tell: Callable[[str], None], seal: Seal | None = None
) -> Checkpoint | None:
    """The newest checkpoint that is whole; None if there never was one.

    Damaged ones are told of and left where they are.
    """
    found = _found(folder)
    for path in found:
        try:
            return _read(path, seal)
        except _DAMAGE as error:
            tell(f"checkpoint '{path}' is damaged ({error}); looking at the one before it")
    if found:
        raise OfclError(
            f"every checkpoint in '{folder}' is damaged; nothing was changed. Restore one from a "
            "backup, or run anew with another --out"
        )
    return None


def rewrite(folder: Path, change: Callable[[State], None], seal: Seal | None = None) -> int:
    """Changes the state in every checkpoint, and leaves none as it was; gives how many there are.

    One that is damaged cannot be changed, and is an error: nobody knows what it still holds.
    """
    found = _found(folder)
    checkpoints = [_readable(path, seal) for path in found]  # all, before anything is changed
    for path, checkpoint in zip(found, checkpoints, strict=True):
        change(checkpoint.state)
        _replace(path, checkpoint, seal)
    shutil.rmtree(folder / "partial", ignore_errors=True)  # of somebody who was killed
    return len(found)


def seal_open(folder: Path, seal: Seal) -> list[Path]:
    """Encrypts the checkpoints that are not; gives those that are damaged, and stay as they are."""
    damaged = []
    for path in _found(folder):
        if _is_sealed(path):
            continue
        try:
            checkpoint = _read(path, seal)
        except _DAMAGE:
            damaged.append(path)
        else:
            _replace(path, checkpoint, seal)
    shutil.rmtree(folder / "partial", ignore_errors=True)  # of somebody who was killed
    return damaged


def _replace(path: Path, checkpoint: Checkpoint, seal: Seal | None) -> None:
    """Puts another checkpoint into the place of one."""
    partial, aside = _written(path.parent, checkpoint, seal), path.with_name("changed")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    partial.rename(path)
    shutil.rmtree(aside)
    sync(path.parent)


def _readable(path: Path, seal: Seal | None) -> Checkpoint:
    try:
        return _read(path, seal)
    except _DAMAGE as error:
        raise OfclError(
            f"checkpoint '{path}' is damaged ({error}): what it holds cannot be told. Delete it if "
            "the other one is enough, and try again"
        ) from None


def newest(folder: Path) -> int | None:
    """The number of events of the newest checkpoint, without reading it; None if there is none."""
    found = _found(folder)
    return int(found[0].name[:9]) if found else None


def _found(folder: Path) -> list[Path]:
    """The checkpoints, the newest first."""
    if not folder.exists():
        return []
    named = (path for path in folder.iterdir() if re.fullmatch(NAME, path.name))
    return sorted(named, key=_number, reverse=True)


def _number(path: Path) -> tuple[int, int]:
    """How many events there were, and which state of so many it is."""
    events, state = re.fullmatch(NAME, path.name).groups()  # type: ignore[union-attr]
    return int(events), int(state or 0)


def _place(folder: Path, events: int, digest: str, seal: Seal | None) -> Path:
    """The name of the newest that is whole, if it is of this state; else the one behind it."""
    alike = (path for path in _found(folder) if _number(path)[0] == events)
    newest = next((path for path in alike if _is_whole(path, seal)), None)
    if newest is not None and digest == _digest_of(newest, seal):
        return newest
    state = 0 if newest is None else _number(newest)[1] + 1
    return folder / (f"{events:09d}" + (f".{state:03d}" if state else ""))


def _is_whole(path: Path, seal: Seal | None) -> bool:
    try:
        _read(path, seal)
    except _DAMAGE:
        return False
    return True


def _read(path: Path, seal: Seal | None) -> Checkpoint:
    text = _text(path, seal)
    value = json.loads(text)
    content = text[text.index('"content": ') + len('"content": ') : -1]
    if seal is not None and _is_sealed(path):
        encoded = seal.opened((path / "tensors.sealed").read_bytes())
        found, tensors = _digest(content, io.BytesIO(encoded)), load(encoded)
    else:
        with (path / "tensors.safetensors").open("rb") as file:
            found = _digest(content, file)
        tensors = load_file(path / "tensors.safetensors")
    if found != value["sha256"]:
        raise ValueError("its checksum does not match")
    content = value["content"]
    return Checkpoint(content["events"], content["seconds"], unflatten(tensors, content["state"]))


def _digest(content: str, tensors: BinaryIO | io.BytesIO) -> str:
    digest = hashlib.file_digest(tensors, "sha256")  # type: ignore[arg-type]
    digest.update(content.encode())
    return digest.hexdigest()
