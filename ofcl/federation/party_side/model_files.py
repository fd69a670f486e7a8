"""The files of a party's models: bundles, each a folder or with a key one encrypted file.

    PARTY/model             the model that the party keeps, of the last run that it has ended
    PARTY/models/task-<n>   the same at the end of each task of the newest run
    PARTY/models/round-<n>  the same after rounds, of a stream
    PARTY/models/global     the models of the last run that it has ended: the global one, the
    PARTY/models/own        party's own, and the one that learned from the party's data alone
    PARTY/models/alone

An encrypted one has the ending `.sealed`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from ofcl.bundle.bundle_files import Bundle, is_bundle, read_bundle, read_zip, write_folder, zipped
from ofcl.bundle.open_bundle import FINAL, OF_TASKS, SEALED_SUFFIX, open_bundle
from ofcl.errors import OfclError
from ofcl.storage.atomic_files import sync
from ofcl.storage.encryption import Seal


def write_model(bundle: Bundle, place: Path, seal: Seal | None) -> None:
    """Checks a bundle like a stranger's, and writes it; what was in its place is replaced.

    Args:
        bundle: The bundle.
        place: The folder that it becomes.
        seal: Encrypts it; None: it is not encrypted.

    Raises:
        OfclError: If it could not be used; then nothing is written.
    """
    content = zipped(bundle)
    open_bundle(read_zip(content), trusted=True)
    sealed = place.with_name(place.name + SEALED_SUFFIX)
    place.parent.mkdir(parents=True, exist_ok=True)
    if seal is None:
        write_folder(bundle, place)
        sealed.unlink(missing_ok=True)
        return
    partial = sealed.with_name(sealed.name + ".partial")
    partial.write_bytes(seal.sealed(content))
    sync(partial)
    partial.replace(sealed)
    sync(sealed.parent)
    shutil.rmtree(place, ignore_errors=True)


def delete_models(party: Path, word: str, numbers: Callable[[int], bool]) -> None:
    """Deletes the models of some tasks or rounds.

    Args:
        party: The party's folder.
        word: The word before the number in the names of the models: `task` or `round`.
        numbers: Tells by the number of a task or round whether its model is deleted.
    """
    for path in (party / OF_TASKS).glob(f"{word}-*"):
        number = path.name.removesuffix(SEALED_SUFFIX).removeprefix(f"{word}-")
        if number.isdigit() and numbers(int(number)):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def seal_models(party: Path, seal: Seal, tell: Callable[[str], None] = print) -> None:
    """Encrypts the models that were saved unencrypted.

    Args:
        party: The party's folder.
        seal: Encrypts with the party's key.
        tell: Is given a line for every damaged model, which cannot be encrypted.
    """
    for folder in [party / FINAL, *sorted((party / OF_TASKS).glob("*"))]:
        if folder.is_dir() and is_bundle(folder):
            try:
                write_model(read_bundle(folder), folder, seal)
            except OfclError as error:
                tell(f"{error}; it could not be encrypted: delete it")
