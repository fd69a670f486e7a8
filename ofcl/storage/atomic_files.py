"""Files that are complete or absent, never half written, also after a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from ofcl.errors import OfclError

WINDOWS = os.name == "nt"


def write_whole(path: Path, text: str) -> None:
    """Writes a text file that is never half written: a crash leaves the old file or the new one.

    Args:
        path: The path of the file.
        text: The text.
    """
    write_whole_bytes(path, text.encode())


def write_whole_bytes(path: Path, content: bytes) -> None:
    """Writes a file that is never half written: a crash leaves the old file or the new one.

    Args:
        path: The path of the file.
        content: The bytes.
    """
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def replace_whole(path: Path, text: str) -> None:
    """Replaces a text file so that readers see the old or the new one; a power cut may lose both.

    It does not wait for the disk: for files that are written again every second.

    Args:
        path: The path of the file.
        text: The text.
    """
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk and outlast a power cut.

    Windows opens no folders and writes only files that are open for writing: there, the names in a
    folder are left to the file system.

    Args:
        path: The path of the file or folder.
    """
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class CannotWrite(OfclError):
    """Raised if the files of a run cannot be written.

    Args:
        problem: Where, and why.
        advice: What to do.

    Attributes:
        problem: Where, and why; whoever knows better advice says it with this.
    """

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}. {advice}")
        self.problem = problem


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns errors of writing files inside the `with` block into one line for the user.

    The line says how to resume the run.

    Args:
        path: The run directory.

    Raises:
        CannotWrite: If the disk is full, or the files cannot be written for another reason.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CannotWrite(
            f"cannot write to '{path}': {error}",
            f"What was saved before is whole; when it can be written to again: ofcl resume {path}",
        ) from error


def ends_with_newline(path: Path) -> bool:
    """Says whether the last line of a file is complete: it ends with a newline.

    Args:
        path: The path of a file that is not empty.
    """
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
