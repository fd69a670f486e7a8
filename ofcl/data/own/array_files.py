"""Arrays in npz files: vectors or images, with their labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ofcl.data.files.arrays import image_arrays, pixel_unit, read_arrays
from ofcl.data.files.labels import NotALabel, check_labels, label_name
from ofcl.data.options import Damage, Reading
from ofcl.data.raw import Content, Raw, check_same_shape, raw_from_labelled
from ofcl.errors import OfclError

KEYS = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x", "y", "", ""),
    ("images", "labels", "", ""),
)
"""The names of the arrays: train samples and their labels, test samples and their labels."""


def npz_file(path: Path, how: Reading) -> Raw:
    """Reads the arrays of an npz file, whose names must be among those in `KEYS`.

    Args:
        path: The file.
        how: The options of reading.

    Raises:
        OfclError: The file lacks arrays, or their shapes and values cannot be used.
    """
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
    parts = {part: array_part(path, arrays, x, y, damage) for part, (x, y) in splits.items()}
    if how.image_size is not None:
        raise OfclError(f"'{path.name}' has arrays, which --image-size cannot resize; leave it out")
    if parts["train"][0].ndim > 2:
        unit = pixel_unit([x for x, _ in parts.values()])
        parts = {
            part: (image_arrays(x, f"'{path.name}', {splits[part][0]}", unit), names)
            for part, (x, names) in parts.items()
        }
    for part, (x, _) in parts.items():
        check_same_shape(f"{path.name}, {splits[part][0]}", parts["train"][0], x)
    check_labels(f"'{keys[1]}' of '{path.name}'", parts["train"][1])
    content: Content = "vectors" if parts["train"][0].ndim == 2 else "images"
    details = {key: f"{array.dtype} {array.shape}" for key, array in arrays.items()}
    return raw_from_labelled(
        path.name.split(".")[0], content, parts, damage.notes(path.name), details
    )


def array_part(
    path: Path, arrays: dict[str, np.ndarray], x_key: str, y_key: str, damage: Damage
) -> tuple[np.ndarray, list[str]]:
    """Reads one part from two arrays.

    Args:
        path: The file, for messages.
        arrays: All arrays of the file by name.
        x_key: The name of the array of samples.
        y_key: The name of the array of labels.
        damage: Samples that cannot be used are reported to it.

    Returns:
        The samples that can be used, and their labels.
    """
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
