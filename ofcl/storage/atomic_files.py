"""Files that are there whole or not at all, also after a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from ofcl.errors import OfclError


def write_whole(path: Path, text: str) -> None:
    """Writes a text file so that it is there whole or not at all.

    Args:
        path: the path of the file.
        text: the text.
    """
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk and outlast a power cut.

    Args:
        path: the path of the file or folder.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the system's errors about writing into one line that says what is still whole.

    Args:
        path: the run directory, with which the run can be resumed.

    Raises:
        OfclError: if the disk is full, or something else keeps from writing.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise OfclError(
            f"cannot write to '{path}': {error}. What was saved before is whole; when it can be "
            f"written to again: ofcl resume {path}"
        ) from error


def ends_with_newline(path: Path) -> bool:
    """Says whether a file ends with a whole line.

    Args:
        path: the path of a file that is not empty.
    """
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
