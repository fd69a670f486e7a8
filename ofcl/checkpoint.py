"""Checkpoints: safetensors + JSON, never pickle; each is there whole or not at all.

A checkpoint is a folder `<number of events>/` with `tensors.safetensors` and `state.json`. It is
written under another name, synced and renamed, and carries a checksum over both files, so that
damage is seen when it is read. The last two are kept. Samples may arrive without an event: a later
state of the same number of events is `<number>.001`, and so on.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ofcl.errors import OfclError
from ofcl.state import State, flatten, unflatten

KEPT = 2
NAME = r"\d{9}(\.\d{3})?"

_DAMAGE = (OSError, ValueError, KeyError, TypeError, SafetensorError)  # what reading can meet


class Checkpoint(NamedTuple):
    """The state of a run, and how far it had come."""

    events: int
    seconds: float
    state: State


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint beside the others, then makes it count by renaming; keeps two."""
    partial = folder / "partial"
    with explained(folder.parent):
        try:
            partial = _written(folder, checkpoint)
            target = _place(folder, checkpoint.events, _digest_of(partial))
            if _is_whole(target):  # a resumed run has come here again: it is the same state
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
    for other in [*(path for path in found if path > target), *found[found.index(target) + KEPT :]]:
        shutil.rmtree(other, ignore_errors=True)


def _written(folder: Path, checkpoint: Checkpoint) -> Path:
    """A checkpoint under another name, which does not count yet."""
    partial = folder / "partial"
    tensors, tree = flatten(checkpoint.state)
    content = json.dumps(
        {"events": checkpoint.events, "seconds": checkpoint.seconds, "state": tree}
    )
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file(tensors, partial / "tensors.safetensors")
    sync(partial / "tensors.safetensors")
    digest = _digest(content, partial / "tensors.safetensors")
    write_whole(partial / "state.json", f'{{"sha256": "{digest}", "content": {content}}}')
    return partial


def _digest_of(path: Path) -> str:
    return str(json.loads((path / "state.json").read_text(encoding="utf-8"))["sha256"])


def load_checkpoint(folder: Path, tell: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole; None if there never was one.

    Damaged ones are told of and left where they are.
    """
    found = _found(folder)
    for path in found:
        try:
            return _read(path)
        except _DAMAGE as error:
            tell(f"checkpoint '{path}' is damaged ({error}); looking at the one before it")
    if found:
        raise OfclError(
            f"every checkpoint in '{folder}' is damaged; nothing was changed. Restore one from a "
            "backup, or run anew with another --out"
        )
    return None


def rewrite(folder: Path, change: Callable[[State], None]) -> int:
    """Changes the state in every checkpoint, and leaves none as it was; gives how many there are.

    One that is damaged cannot be changed, and is an error: nobody knows what it still holds.
    """
    found = _found(folder)
    checkpoints = [_readable(path) for path in found]  # all, before anything is changed
    for path, checkpoint in zip(found, checkpoints, strict=True):
        change(checkpoint.state)
        partial = _written(folder, checkpoint)
        shutil.rmtree(path)
        partial.rename(path)
        sync(folder)
    return len(found)


def _readable(path: Path) -> Checkpoint:
    try:
        return _read(path)
    except _DAMAGE as error:
        raise OfclError(
            f"checkpoint '{path}' is damaged ({error}): what it holds cannot be told. Delete it if "
            "the other one is enough, and try again"
        ) from None


def newest(folder: Path) -> int | None:
    """The number of events of the newest checkpoint, without reading it; None if there is none."""
    found = _found(folder)
    return int(found[0].name[:9]) if found else None


def write_whole(path: Path, text: str) -> None:
    """Writes a file so that it is there whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def sync(path: Path) -> None:
    """Makes sure that a file, or the names in a folder, outlast a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the system's errors about writing into one line that says what is safe."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise OfclError(
            f"cannot write to '{path}': {error}. What was saved before is whole; when it can be "
            f"written to again: ofcl resume {path}"
        ) from error


def _found(folder: Path) -> list[Path]:
    if not folder.exists():
        return []
    return sorted((p for p in folder.iterdir() if re.fullmatch(NAME, p.name)), reverse=True)


def _place(folder: Path, events: int, digest: str) -> Path:
    """The first name for so many events that no other whole checkpoint has."""
    names = (f"{events:09d}" + (f".{n:03d}" if n else "") for n in itertools.count())
    return next(
        folder / name
        for name in names
        if not _is_whole(folder / name) or digest in (folder / name / "state.json").read_text()[:90]
    )


def _is_whole(path: Path) -> bool:
    try:
        _read(path)
    except _DAMAGE:
        return False
    return True


def _read(path: Path) -> Checkpoint:
    text = (path / "state.json").read_text(encoding="utf-8")
    value = json.loads(text)
    content = text[text.index('"content": ') + len('"content": ') : -1]
    if _digest(content, path / "tensors.safetensors") != value["sha256"]:
        raise ValueError("its checksum does not match")
    tensors = load_file(path / "tensors.safetensors")
    content = value["content"]
    return Checkpoint(content["events"], content["seconds"], unflatten(tensors, content["state"]))


def _digest(content: str, tensors: Path) -> str:
    with tensors.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(content.encode())
    return digest.hexdigest()
