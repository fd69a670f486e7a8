"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from ofcl.errors import OfclError


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


def ends_with_newline(path: Path) -> bool:
    """Whether a file that is not empty ends with a whole line."""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
