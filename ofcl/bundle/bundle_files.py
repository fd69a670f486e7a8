"""The files of a bundle: a folder, or one zip file of it. Reading one runs no code.

    model.json            the description
    weights.safetensors   the weights
    README.md             the card, for people; it is never read back

A bundle is checked like anything from a stranger: sizes before anything is read, a checksum, names
and shapes of all tensors. Nothing but these files is opened, and links are refused.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save

from ofcl.bundle.description import Description, from_json, to_json
from ofcl.bundle.model_card import card
from ofcl.errors import OfclError
from ofcl.state import Tensors, flatten
from ofcl.storage.atomic_files import sync, write_whole_bytes

DESCRIPTION, WEIGHTS, CARD = "model.json", "weights.safetensors", "README.md"
MOST_BYTES = {DESCRIPTION: 64 * 2**20, WEIGHTS: 16 * 2**30}
_TIME = (1980, 1, 1, 0, 0, 0)  # of the entries of a zip, so that equal bundles are equal files
PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags to open plain files only; Windows has the last alone."""
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


class Bundle(NamedTuple):
    """A description, and the named tensors of the model."""

    description: Description
    tensors: Tensors


def bundle_contents(bundle: Bundle) -> dict[str, bytes]:
    """Returns the content of each file of a bundle, by its name.

    Args:
        bundle: The bundle; the checksum in its description is filled in.
    """
    weights = save(flatten(dict(bundle.tensors))[0])
    checksum = hashlib.sha256(weights).hexdigest()
    described = replace(bundle.description, weights_sha256=checksum)
    return {
        DESCRIPTION: to_json(described).encode(),
        WEIGHTS: weights,
        CARD: card(described).encode(),
    }


def write_folder(bundle: Bundle, folder: Path) -> None:
    """Writes a bundle as a folder, which is complete or absent whenever the power goes.

    Args:
        bundle: The bundle.
        folder: The folder; an older bundle there is replaced.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, content in bundle_contents(bundle).items():
        (partial / name).write_bytes(content)
        sync(partial / name)
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
    sync(folder.parent)


def write_zip(bundle: Bundle, path: Path) -> None:
    """Writes a bundle as one zip file, which is complete or absent whenever the power goes.

    Args:
        bundle: The bundle.
        path: The file; an older one is replaced.
    """
    write_whole_bytes(path, zipped(bundle))


def zipped(bundle: Bundle) -> bytes:
    """Returns the bytes of a bundle as one zip file; equal bundles have equal bytes.

    Args:
        bundle: The bundle.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in bundle_contents(bundle).items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), content)
    return buffer.getvalue()


def is_bundle(path: Path) -> bool:
    """Says whether a path is a folder with a bundle's description, or a zip file.

    Args:
        path: The path, which need not exist.
    """
    if path.is_dir():
        return (path / DESCRIPTION).is_file()
    return path.is_file() and zipfile.is_zipfile(path)


def read_bundle(path: Path) -> Bundle:
    """Reads and checks a bundle.

    Args:
        path: Its folder or zip file.

    Raises:
        OfclError: If it is damaged or cannot be a bundle; the message says what is wrong.
    """
    try:
        if path.is_dir():
            return _checked(lambda name: _file_of_folder(path / name, MOST_BYTES[name]))
        _check_size("zip file", path.stat().st_size, sum(MOST_BYTES.values()))
        return read_zip(path.read_bytes())
    except OfclError as error:
        raise OfclError(f"'{path}' cannot be used as a model: {error}") from None
    except OSError as error:
        raise OfclError(f"'{path}' cannot be read ({error.strerror})") from None


def read_zip(content: bytes) -> Bundle:
    """Reads and checks the bytes of a bundle that is one zip file.

    Args:
        content: The bytes.

    Raises:
        OfclError: If they are damaged or cannot be a bundle; the message says what is wrong.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _checked(lambda name: _file_of_zip(archive, name, MOST_BYTES[name]))
    except _DAMAGED as error:
        raise OfclError(f"it is no zip file, or damaged ({error})") from None


def _checked(read: Callable[[str], bytes]) -> Bundle:
    """Puts a bundle together from its files, and checks that they belong together.

    Args:
        read: Reads one of the bundle's files, by its name.
    """
    try:
        description = from_json(read(DESCRIPTION).decode())
    except UnicodeDecodeError:
        raise OfclError("its model.json is not a text") from None
    weights = read(WEIGHTS)
    if hashlib.sha256(weights).hexdigest() != description.weights_sha256:
        raise OfclError("the checksum of its weights is another one: they are damaged or changed")
    try:
        return Bundle(description, load(weights))
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise OfclError(f"its weights cannot be read ({error})") from None


def _file_of_folder(path: Path, most: int) -> bytes:
    """Reads a plain file of a bundle's folder; a link, a pipe or a device is refused."""
    try:
        if path.is_symlink():  # Windows cannot refuse it while opening
            raise OfclError(f"its {path.name} is a link")
        descriptor = os.open(path, os.O_RDONLY | PLAIN)
    except FileNotFoundError:
        raise OfclError(f"it has no {path.name}") from None
    except OSError as error:
        raise OfclError(
            f"its {path.name} is a link or cannot be opened ({error.strerror})"
        ) from None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        raise OfclError(f"its {path.name} is not a file")
    with os.fdopen(descriptor, "rb") as file:
        _check_size(path.name, about.st_size, most)
        return file.read()


def _file_of_zip(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Reads a file of a bundle's zip: at most as many bytes as the zip states, which are checked.

    Args:
        archive: The zip file.
        name: The name of the file in it.
        most: The largest size that such a file can have.
    """
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise OfclError(f"it has no {name}") from None
    _check_size(name, entry.file_size, most)
    if entry.compress_type not in _PACKED:
        raise OfclError(
            f"its {name} is compressed in a rare way; zip it with deflate, or not at all"
        )
    if entry.compress_type != zipfile.ZIP_STORED and entry.file_size > 1000 * entry.compress_size:
        raise OfclError(f"its {name} would unpack to {entry.file_size} bytes")
    with archive.open(entry) as file:
        return file.read(entry.file_size)


def _check_size(name: str, size: int, most: int) -> None:
    """Raises an error if a file is larger than such a file can be."""
    if size > most:
        raise OfclError(f"its {name} has {size} bytes; at most {most} are read")
