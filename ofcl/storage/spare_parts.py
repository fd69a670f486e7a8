"""Files of tensors that never change and can be done without: checkpoints share them.

A state may have `Spare` parts, such as earlier global models. Each is written once, to a file of
its own whose name is its checksum; the next checkpoint has a link to the same file. One that is
damaged or missing is read as no tensors at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save

from ofcl.state import Spare, State
from ofcl.storage.atomic_files import sync

_MARK = "__spare__"


def spare_writer(folder: Path) -> Callable[[Spare], State]:
    """Returns a function that writes spare parts to a checkpoint's folder.

    Args:
        folder: The folder. Those beside it are looked at for the same part.
    """

    def write(part: Spare) -> State:
        """Writes one part, or links to it; gives the plain values that refer to it."""
        name = part.checksum
        if name is None or not _linked(folder, name):
            content = save(part)
            name = part.checksum = hashlib.sha256(content).hexdigest()
            if not _linked(folder, name):
                (folder / _file(name)).write_bytes(content)
                sync(folder / _file(name))
        return {_MARK: name}

    return write


def with_spare_parts(tree: Any, folder: Path) -> Any:
    """Puts the spare parts of a checkpoint into its state.

    Args:
        tree: The state, which refers to them.
        folder: The folder of the checkpoint.
    """
    if isinstance(tree, dict):
        if set(tree) == {_MARK}:
            return _read(folder, str(tree[_MARK]))
        return {key: with_spare_parts(item, folder) for key, item in tree.items()}
    if isinstance(tree, list):
        return [with_spare_parts(item, folder) for item in tree]
    return tree


def _file(name: str) -> str:
    """Gives the name of the file of a part."""
    return f"spare-{name}.safetensors"


def _linked(folder: Path, name: str) -> bool:
    """Makes the file of a part from that of a checkpoint beside; tells whether there was one."""
    if (folder / _file(name)).exists():
        return True
    for other in folder.parent.iterdir():
        if not (other / _file(name)).exists():
            continue
        try:
            os.link(other / _file(name), folder / _file(name))
        except OSError:  # a file system without links
            shutil.copyfile(other / _file(name), folder / _file(name))
        return True
    return False


def _read(folder: Path, name: str) -> Spare:
    """Reads a part; of one that is damaged or missing there are no tensors."""
    if re.fullmatch(r"[0-9a-f]{64}", name):
        with contextlib.suppress(OSError, SafetensorError):
            content = (folder / _file(name)).read_bytes()
            if hashlib.sha256(content).hexdigest() == name:
                part = Spare(load(content))
                part.checksum = name
                return part
    return Spare()
