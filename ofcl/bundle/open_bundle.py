"""Opening a model: of a run, a bundle's folder or a bundle's zip file."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ofcl.bundle.bundle_files import Bundle, is_bundle, read_bundle, read_zip
from ofcl.bundle.network import build_network
from ofcl.bundle.trained_model import TextOptions, TrainedModel
from ofcl.errors import OfclError
from ofcl.models.backbone import find_checksum, remember
from ofcl.own_parts.handed_over import hand_over_as
from ofcl.own_parts.kinds import is_code
from ofcl.own_parts.part_identity import check_identities
from ofcl.own_parts.permission import check_allowed
from ofcl.pretrained.backbone_names import is_backbone
from ofcl.storage.encryption import Seal

FINAL, OF_TASKS = "model", "models"
"""In a run directory, or a party's: the final bundle, and the folder of those at task ends."""

SEALED_SUFFIX = ".sealed"
"""The ending of an encrypted bundle, which is one file."""

SEALED = FINAL + SEALED_SUFFIX
"""The final bundle if it is encrypted."""


def load(
    path: str | Path,
    *,
    device: str | torch.device = "cpu",
    resize: bool = False,
    embedder: str | None = None,
    cache: str | Path | None = None,
    key_file: str | Path | None = None,
    model: Any = None,
    allow: Iterable[str] = (),
) -> TrainedModel:
    """Loads a model that was learned.

    Args:
        path: A run directory, a party's folder, or a bundle as a folder or zip file. Of a run that
            is not over, it is the model at the end of the last task.
        device: The device to predict on.
        resize: Whether images of another size are resized even if the model has not learned from
            resized ones.
        embedder: The embedder of a model of texts, by name or folder, or the pretrained network
            that the model was learned from, such as `timm:NAME@FILE`; None: the one that the bundle
            names.
        cache: The data folder in which vectors of texts are kept; None: they are not kept.
        key_file: The file of the key of an encrypted bundle.
        model: The network of your own, if the model has one: what was given to `ofcl.run`.
        allow: The path to its code, if that may be imported, instead of `model`.

    Raises:
        OfclError: If there is no model, it is damaged, or it names code that was not allowed.

    >>> import tempfile, ofcl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = ofcl.run(dataset="digits", model="mlp", clients=2, tasks=2, out=f"{folder}/a")
    ...     model = load(f"{folder}/a")
    >>> digits = ofcl.load_dataset("digits")
    >>> (model.predict(digits.x_test[:50]) == digits.y_test[:50].numpy().astype(str)).mean() > 0.7
    np.True_
    """
    bundle = find_bundle(Path(path), key_file, allow=None)
    texts = TextOptions(embedder, Path(cache) if cache is not None else None)
    try:
        check_code(bundle, "it", allow, model)
        find_weights(bundle, embedder)
        return open_bundle(bundle, resize=resize, texts=texts, trusted=True).to(device)
    except OfclError as error:
        raise OfclError(f"'{path}' cannot be used as a model: {error}") from None


def open_bundle(
    bundle: Bundle,
    *,
    resize: bool = False,
    texts: TextOptions = TextOptions(),  # noqa: B008 (it is frozen)
    trusted: bool = False,
) -> TrainedModel:
    """Makes the model that a bundle describes, on the CPU.

    Args:
        bundle: The bundle.
        resize: Whether images of another size are resized even if the model has not learned from
            resized ones.
        texts: How texts become vectors, for a model of texts.
        trusted: Whether code that it names may be imported: it was made here, or checked before.

    Raises:
        OfclError: If the weights do not fit the description, or it names code.
    """
    if not trusted:
        check_code(bundle, "it", ())
    tensors = {name: value.detach().cpu() for name, value in bundle.tensors.items()}
    module = build_network(bundle.description, tensors)
    return TrainedModel(bundle.description, module, resize=resize, texts=texts)


def find_weights(bundle: Bundle, name: str | None) -> None:
    """Loads the pretrained weights that a bundle refers to, if the user says where they are.

    Args:
        bundle: The bundle.
        name: The name of the pretrained network, with the place of its weights; None: nobody says.

    Raises:
        OfclError: If they cannot be had, or are others.
    """
    network = bundle.description.network
    if name is None or network.pretrained is None:
        return
    if not is_backbone(name):
        raise OfclError(f"'{name}' is no pretrained network; this model needs '{network.name}'")
    remember(network.name, find_checksum(name), network.pretrained.checksum, name)


def keep_newest(folder: Path, word: str, count: int) -> None:
    """Deletes the bundles with lower numbers.

    Args:
        folder: The folder with bundles called by a word and a number, such as `task-1`.
        word: The word.
        count: How many of the highest numbers stay.
    """
    for old in sorted(folder.glob(f"{word}-*"), key=_number)[:-count]:
        shutil.rmtree(old, ignore_errors=True)


def check_code(bundle: Bundle, name: str, allow: Iterable[str], model: Any = None) -> None:
    """Raises an error if a bundle names code that nobody here has allowed, or that has changed.

    Args:
        bundle: The bundle, which may be anybody's.
        name: What to call it in the message.
        allow: Paths to code that may be imported.
        model: The network of the user's own, as a Python object; None: it is not given.
    """
    network = bundle.description.network.name
    given = () if model is None else (network,)
    if model is not None:
        if not is_code(network):
            raise OfclError(f"{name} has the network {network}; leave out model")
        hand_over_as("model", network, model)
    check_allowed({"model": network}, (*allow, *given), name)
    saved = bundle.description.learned.made_with.get("parts", {})
    if is_code(network) and "model" in saved:
        check_identities({"model": saved["model"]}, {"model": network})


def find_bundle(
    path: Path, key_file: str | Path | None = None, *, allow: Iterable[str] | None = ()
) -> Bundle:
    """Finds and reads the bundle that a path stands for.

    Args:
        path: A run directory, a party's folder, or a bundle as a folder or zip file.
        key_file: The file of the key of an encrypted bundle.
        allow: Paths to code that may be imported when the bundle is opened; None: it is not opened,
            or the caller asks `check_code` before.

    Raises:
        OfclError: If there is no bundle, it is damaged, or it names code that was not allowed.
    """
    bundle = _find(path, key_file)
    if allow is not None:
        check_code(bundle, f"'{path}'", allow)
    return bundle


def _find(path: Path, key_file: str | Path | None) -> Bundle:
    """Finds and reads a bundle, as `find_bundle` does, whatever code it names."""
    for place in (path, path / FINAL, *_newest_first(path / OF_TASKS)):
        sealed = place.parent / (place.name.removesuffix(SEALED_SUFFIX) + SEALED_SUFFIX)
        if sealed.is_file():
            return _opened(sealed, key_file)
        if is_bundle(place):
            return read_bundle(place)
    if not path.exists():
        raise OfclError(f"no file or folder '{path}'")
    if (path / "settings.toml").exists():
        raise OfclError(
            f"'{path}' has no model yet: no task has ended, or no round was held, or learning "
            "diverged (or an earlier version of ofcl made it: run it again)"
        )
    raise OfclError(
        f"'{path}' is no model; expected a run directory, the folder of a bundle (with model.json) "
        "or its zip file, or the folder of a party that has ended a task"
    )


def _newest_first(folder: Path) -> list[Path]:
    """Lists the bundles of task ends and of checkpoints, the one that was written last first."""
    found = {
        path.with_name(path.name.removesuffix(SEALED_SUFFIX)): path.stat().st_mtime_ns
        for path in folder.glob("*-*")
        if not path.name.endswith(".partial")
    }
    return sorted(found, key=lambda path: (found[path], _number(path)), reverse=True)


def _opened(path: Path, key_file: str | Path | None) -> Bundle:
    """Reads an encrypted bundle."""
    if key_file is None:
        raise OfclError(f"'{path}' is encrypted; give the file of its key with --key-file")
    try:
        return read_zip(Seal.from_file(key_file).opened(path.read_bytes()))
    except ValueError as error:
        raise OfclError(f"'{path}' cannot be opened: {error}") from None


def _number(folder: Path) -> int:
    """Returns the number at the end of a folder's name; −1 if there is none."""
    number = folder.name.removesuffix(SEALED_SUFFIX).rpartition("-")[2]
    return int(number) if number.isdigit() else -1
