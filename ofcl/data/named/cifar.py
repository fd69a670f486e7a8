"""CIFAR-10 and CIFAR-100, in their official pickled batches, read without running their code."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ofcl.data.files.labels import label_name
from ofcl.data.raw import Part, Raw
from ofcl.errors import OfclError

SIDE = 32

_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),  # how Python 3 pickles bytes for readers of Python 2
}
"""The names that a pickle of arrays and plain values refers to; any other could run code."""


class ArraysOnly(pickle.Unpickler):
    """Reads pickles of arrays and plain values; refuses all others, which could run code."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns a class or function that a pickle refers to; refuses it unless arrays need it.

        Args:
            module: The module that the pickle names.
            name: The name in that module.
        """
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which no array needs")
        return super().find_class(module, name)


def read_pickle(path: Path) -> dict[str, Any]:
    """Reads the dictionary in a file of CIFAR, without running code in it.

    Args:
        path: The file.

    Raises:
        OfclError: The file cannot be read, or is no such dictionary.
    """
    try:
        content = path.read_bytes()
        batch = ArraysOnly(io.BytesIO(content), encoding="latin1").load()
    except OSError as error:
        raise OfclError(f"'{path}' cannot be read ({error.strerror})") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise OfclError(f"'{path}' is not a CIFAR batch: {error}") from None
    if not isinstance(batch, dict):
        raise OfclError(f"'{path}' is not a CIFAR batch: it holds a {type(batch).__name__}")
    return {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in batch.items()}


def cifar10(root: Path) -> Raw:
    """Reads CIFAR-10: 60,000 colour images of ten kinds of things.

    Args:
        root: The data folder, with the unpacked archive in it.
    """
    folder = root / "cifar-10-batches-py"
    return Raw(
        "cifar10",
        "images",
        _part([folder / f"data_batch_{n}" for n in range(1, 6)], "labels"),
        _names(folder / "batches.meta", "label_names"),
        _part([folder / "test_batch"], "labels"),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
    )


def cifar100(root: Path) -> Raw:
    """Reads CIFAR-100: 60,000 colour images of a hundred kinds of things.

    Args:
        root: The data folder, with the unpacked archive in it.
    """
    folder = root / "cifar-100-python"
    return Raw(
        "cifar100",
        "images",
        _part([folder / "train"], "fine_labels"),
        _names(folder / "meta", "fine_label_names"),
        _part([folder / "test"], "fine_labels"),
        mean=(0.5071, 0.4867, 0.4408),
        std=(0.2675, 0.2565, 0.2761),
    )


def _names(path: Path, key: str) -> tuple[str, ...]:
    """Reads the labels of the classes from a `meta` file.

    Args:
        path: The file.
        key: The entry of the file's dictionary that lists the labels.
    """
    names = read_pickle(path).get(key)
    if not isinstance(names, list):
        raise OfclError(f"'{path}' is damaged: it lacks the list {key}")
    return tuple(map(label_name, names))


def _part(paths: list[Path], key: str) -> Part:
    """Reads the images and classes of several files as one part.

    Args:
        paths: The files.
        key: The entry of a file's dictionary that lists the class of each image.
    """
    images, labels = [], []
    for path in paths:
        batch = read_pickle(path)
        if not {"data", key} <= batch.keys():
            raise OfclError(f"'{path}' is not a CIFAR batch: it has {', '.join(batch)}")
        data, y = np.asarray(batch["data"]), np.asarray(batch[key])
        if data.shape != (len(y), 3 * SIDE**2) or data.dtype != np.uint8:
            raise OfclError(f"'{path}' is damaged: {data.dtype} {data.shape}, {len(y)} labels")
        images.append(data.reshape(-1, 3, SIDE, SIDE))
        labels.append(y.astype(np.int64))
    return Part(np.concatenate(images), np.concatenate(labels))
