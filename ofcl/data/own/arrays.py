"""Arrays in npz files: vectors or images, in our names, MedMNIST's, or just x and y."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from ofcl.data.labels import NotALabel, check_labels, label_name
from ofcl.data.raw import Content, Raw, check_alike, gather
from ofcl.data.reading import Damage, Reading
from ofcl.errors import OfclError

KEYS = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x", "y", "", ""),
    ("images", "labels", "", ""),
)
"""The names of the arrays: samples and labels, to learn from and to test."""


def npz_file(path: Path, how: Reading) -> Raw:
    """The arrays of an npz file as data."""
    arrays = read_arrays(path)
    keys = next((keys for keys in KEYS if set(filter(None, keys[:2])) <= arrays.keys()), None)
    if keys is None:
        raise OfclError(
            f"'{path.name}' has the arrays {', '.join(arrays) or 'none'}; expected x_train, "
            "y_train, x_test, y_test, or train_images, train_labels, test_images, test_labels, or "
            "x, y"
        )
    damage = Damage(how.on_bad)
    splits = {"train": keys[:2]}
    if keys[2] in arrays and keys[3] in arrays:
        splits["test"] = keys[2:]
        if {"val_images", "val_labels"} <= arrays.keys():
            splits["validation"] = ("val_images", "val_labels")
    found = {part: _array_part(path, arrays, x, y, damage) for part, (x, y) in splits.items()}
    for part, (x, _) in found.items():
        check_alike(f"{path.name}, {splits[part][0]}", found["train"][0], x)
    check_labels(f"'{keys[1]}' of '{path.name}'", found["train"][1])
    content: Content = "vectors" if found["train"][0].ndim == 2 else "images"
    details = {key: f"{array.dtype} {array.shape}" for key, array in arrays.items()}
    return gather(path.name.split(".")[0], content, found, damage.notes(path.name), details)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file; one that would have to run code to be read is refused."""
    try:
        with np.load(path, allow_pickle=False) as data:
            if not isinstance(data, np.lib.npyio.NpzFile):
                raise OfclError(f"'{path.name}' holds a single array; expected an npz of several")
            return {key: data[key] for key in data}
    except (OSError, ValueError, EOFError, KeyError, MemoryError, zlib.error, SyntaxError,
            NotImplementedError, zipfile.BadZipFile) as error:  # fmt: skip
        raise OfclError(f"'{path}' cannot be read as npz ({error})") from None


def _array_part(
    path: Path, arrays: dict[str, np.ndarray], x_key: str, y_key: str, damage: Damage
) -> tuple[np.ndarray, list[str]]:
    """Samples as images (n, c, h, w) or vectors (n, d), and the names of their labels."""
    x, y = arrays[x_key], arrays[y_key]
    where = f"'{path.name}', {x_key}"
    if y.ndim == 2 and y.shape[1] == 1:  # as MedMNIST has them
        y = y[:, 0]
    if y.ndim != 1 or x.ndim < 2 or len(x) != len(y):
        raise OfclError(
            f"'{path.name}': {x_key} is {x.shape} and {y_key} {y.shape}; expected (n, …) and (n,)"
        )
    if x.dtype.kind not in "buif" or x.size == 0:
        raise OfclError(f"{where}: {x.dtype} of shape {x.shape}; expected numbers")
    usable = np.isfinite(x.reshape(len(x), -1)).all(axis=1)
    names: list[str] = []
    for row, value in enumerate(y.tolist()):
        try:
            names.append(label_name(value))
        except NotALabel as error:
            usable[row] = False
            names.append("")
            damage.report(f"'{path.name}', {y_key}, row {row}: {error}")
            continue
        if not usable[row]:
            damage.report(f"{where}, row {row}: a value that is not a number")
    kept = [name for name, good in zip(names, usable, strict=True) if good]
    return image_arrays(x[usable], where) if x.ndim > 2 else x[usable], kept


def image_arrays(x: np.ndarray, where: str) -> np.ndarray:
    """Images in any of the usual layouts, as uint8 (n, channels, height, width)."""
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise OfclError(
            f"{where}: shape {x.shape}; images are (n, height, width), (n, height, width, 3) or "
            "(n, 3, height, width)"
        )
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x)
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    if low < 0 or high > 255:
        raise OfclError(
            f"{where}: values from {low:g} to {high:g}; images have 0 to 255, or 0 to 1"
        )
    scale = 255 if x.dtype.kind == "f" and high <= 1 else 1
    return np.ascontiguousarray(np.round(x * scale).astype(np.uint8))
