"""One state as two files with a checksum over both: `tensors.safetensors` and `state.json`.

If they are encrypted, they are called `tensors.sealed` and `state.sealed`. Spare parts have files
their own (`spare_parts.py`), unless they are encrypted.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError
from safetensors.torch import load, load_file, save, save_file

from ofcl.errors import OfclError
from ofcl.state import State, flatten, unflatten
from ofcl.storage.atomic_files import sync, write_whole
from ofcl.storage.encryption import Seal
from ofcl.storage.spare_parts import spare_writer, with_spare_parts

DAMAGE = (OSError, ValueError, KeyError, TypeError, SafetensorError)
"""The errors that reading damaged files can end in."""

_CONTENT = '"content": '


def write_state(folder: Path, about: dict[str, Any], state: State, seal: Seal | None) -> str:
    """Writes a state into a folder and waits until it is on the disk.

    Args:
        folder: An empty folder.
        about: Plain values to save with the state.
        state: The state.
        seal: Encrypts both files; None: they are not encrypted.

    Returns:
        The checksum over both files.
    """
    tensors, tree = flatten(state, spare=spare_writer(folder) if seal is None else None)
    content = json.dumps({**about, "state": tree})
    if seal is not None:
        encoded = save(tensors)
        checksum = _checksum(content, io.BytesIO(encoded))
        _write_sealed(folder / "tensors.sealed", encoded, seal)
        _write_sealed(folder / "state.sealed", _with_checksum(checksum, content).encode(), seal)
        return checksum
    path = folder / "tensors.safetensors"
    save_file(tensors, path)
    sync(path)
    with path.open("rb") as file:
        checksum = _checksum(content, file)
    write_whole(folder / "state.json", _with_checksum(checksum, content))
    return checksum


def read_state(folder: Path, seal: Seal | None) -> tuple[dict[str, Any], State]:
    """Reads the plain values and the state that `write_state` has written.

    Args:
        folder: The folder of the two files.
        seal: Decrypts the files; None if they are not encrypted.

    Returns:
        The plain values (`about`), and the state.

    Raises:
        OfclError: If the files are encrypted and there is no seal.
        OSError, ValueError, KeyError, TypeError, SafetensorError: If they are damaged (`DAMAGE`).
    """
    text = _state_text(folder, seal)
    saved = json.loads(text)
    # The checksum is of the content as it was written, letter by letter.
    content = text[text.index(_CONTENT) + len(_CONTENT) : -1]
    if seal is not None and is_sealed(folder):
        encoded = seal.opened((folder / "tensors.sealed").read_bytes())
        checksum, tensors = _checksum(content, io.BytesIO(encoded)), load(encoded)
    else:
        path = folder / "tensors.safetensors"
        with path.open("rb") as file:
            checksum = _checksum(content, file)
        tensors = load_file(path)
    if checksum != saved["sha256"]:
        raise ValueError("its checksum does not match")
    about = saved["content"]
    tree = about.pop("state")
    return about, with_spare_parts(unflatten(tensors, tree), folder)


def is_whole(folder: Path, seal: Seal | None) -> bool:
    """Says whether a folder contains a state that can be read and is not damaged.

    Args:
        folder: The folder of the two files.
        seal: Decrypts the files; None if they are not encrypted.
    """
    try:
        read_state(folder, seal)
    except DAMAGE:
        return False
    return True


def is_sealed(folder: Path) -> bool:
    """Says whether the files of a state are encrypted.

    Args:
        folder: The folder of the two files.
    """
    return (folder / "state.sealed").exists()


def saved_checksum(folder: Path, seal: Seal | None) -> str:
    """Reads the checksum that was written with a state, without checking the state.

    Args:
        folder: The folder of the two files.
        seal: Decrypts the files; None if they are not encrypted.
    """
    return str(json.loads(_state_text(folder, seal))["sha256"])


def _with_checksum(checksum: str, content: str) -> str:
    """Returns the text of `state.json`: the checksum, and the content as JSON."""
    return f'{{"sha256": "{checksum}", {_CONTENT}{content}}}'


def _state_text(folder: Path, seal: Seal | None) -> str:
    """Reads the text of `state.json`, or decrypts that of `state.sealed`."""
    if not is_sealed(folder):
        return (folder / "state.json").read_text(encoding="utf-8")
    if seal is None:
        raise OfclError(f"'{folder}' is encrypted; give the file of its key with --key-file")
    return seal.opened((folder / "state.sealed").read_bytes()).decode()


def _write_sealed(path: Path, content: bytes, seal: Seal) -> None:
    """Encrypts bytes, writes them to a file and waits until they are on the disk."""
    path.write_bytes(seal.sealed(content))
    sync(path)


def _checksum(content: str, tensors: BinaryIO | io.BytesIO) -> str:
    """Computes the checksum over the content of `state.json` and the file of tensors."""
    digest = hashlib.file_digest(tensors, "sha256")  # type: ignore[arg-type]
    digest.update(content.encode())
    return digest.hexdigest()
