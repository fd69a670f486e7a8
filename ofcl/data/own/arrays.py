"""Arrays in npz files: vectors or images, in our names, MedMNIST's, or just x and y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ofcl.data.files.labels import NotALabel, check_labels, label_name
from ofcl.data.options import Damage, Reading
from ofcl.data.raw import Content, Raw, check_alike, gather
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
    elif lonely := next((key for key in keys[2:] if key in arrays), None):
        other = keys[3] if lonely == keys[2] else keys[2]
        raise OfclError(f"'{path.name}' has {lonely} but no {other}")
    found = {part: _array_part(path, arrays, x, y, damage) for part, (x, y) in splits.items()}
    if how.image_size is not None:
        raise OfclError(f"'{path.name}' has arrays, which --image-size cannot resize; leave it out")
    if found["train"][0].ndim > 2:
        unit = pixel_unit([x for x, _ in found.values()])
        found = {
            part: (image_arrays(x, f"'{path.name}', {splits[part][0]}", unit), names)
            for part, (x, names) in found.items()
        }
    for part, (x, _) in found.items():
        check_alike(f"{path.name}, {splits[part][0]}", found["train"][0], x)
    check_labels(f"'{keys[1]}' of '{path.name}'", found["train"][1])
    content: Content = "vectors" if found["train"][0].ndim == 2 else "images"
    details = {key: f"{array.dtype} {array.shape}" for key, array in arrays.items()}
    return gather(path.name.split(".")[0], content, found, damage.notes(path.name), details)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file; one that would have to run code to be read is refused."""
    try:
        with path.open("rb") as file:
            data = np.load(file, allow_pickle=False)
            arrays = {key: data[key] for key in data} if isinstance(data, Mapping) else None
    except Exception as error:  # of zipfile, zlib, tokenize, NumPy: whatever damage brings
        reason = str(error).split("\n")[0]
        raise OfclError(f"'{path}' cannot be read as npz ({reason})") from None
    if arrays is None:
        raise OfclError(f"'{path.name}' holds a single array; expected an npz of several")
    # What is no array comes as bytes.
    return {key: array for key, array in arrays.items() if isinstance(array, np.ndarray)}


def _array_part(
    path: Path, arrays: dict[str, np.ndarray], x_key: str, y_key: str, damage: Damage
) -> tuple[np.ndarray, list[str]]:
    """The samples that can be used, and the names of their labels."""
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
    usable = np.ones(len(x), dtype=bool)
    if x.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what is finite, but not in 32 bits, cannot be used
            usable &= np.isfinite(x.astype(np.float32)).reshape(len(x), -1).all(axis=1)
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
            damage.report(f"{where}, row {row}: a value that is no number of 32 bits")
    kept = [name for name, good in zip(names, usable, strict=True) if good]
    return x[usable], kept


def pixel_unit(parts: Sequence[np.ndarray]) -> int:
    """What a pixel is multiplied with: 255 where all parts' values are from 0 to 1."""
    one = all(x.dtype.kind in "bf" and (not x.size or x.max() <= 1) for x in parts)
    return 255 if one else 1


def image_arrays(x: np.ndarray, where: str, unit: int | None = None) -> np.ndarray:
    """Images in any of the usual layouts, as uint8 (n, channels, height, width).

    `unit` None: as the values of these images say.
    """
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
    unit = pixel_unit([x]) if unit is None else unit
    return np.ascontiguousarray(np.round(x * unit).astype(np.uint8))
