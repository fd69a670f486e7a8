"""Datasets that come with the package, so that everything runs without a download."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from ofcl.data.raw import Part, Raw

FASHION_LABELS = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def fashion_mini(root: Path) -> Raw:
    """Reads 6,000 train and 1,000 test images of Fashion-MNIST, class-balanced (MIT licence).

    Args:
        root: Not used: the images come with the package. Every reader takes the data folder.
    """
    return _images("fashion-mini", _embedded("fashion-mini.npz"), FASHION_LABELS)


def digits(root: Path) -> Raw:
    """Reads 1,797 digits of 8 × 8 pixels (UCI, CC BY 4.0); every fifth is for testing.

    Args:
        root: Not used: the images come with the package. Every reader takes the data folder.
    """
    data = _embedded("digits.npz")
    x, y = data["images"] * np.uint8(15), data["classes"].astype(np.int64)  # 0 … 16 to 0 … 240
    test = np.arange(len(y)) % 5 == 0
    arrays = {"x_train": x[~test], "y_train": y[~test], "x_test": x[test], "y_test": y[test]}
    return _images("digits", arrays, tuple("0123456789"))


def _embedded(name: str) -> dict[str, np.ndarray]:
    """Reads the arrays of a file that comes with the package.

    Args:
        name: The name of the file.
    """
    with (
        as_file(files("ofcl.data").joinpath(name)) as path,
        np.load(path, allow_pickle=False) as data,
    ):
        return {key: data[key] for key in data}


def _images(name: str, arrays: dict[str, np.ndarray], labels: tuple[str, ...]) -> Raw:
    """Makes raw data from grey images.

    Args:
        name: The name of the dataset.
        arrays: The images `x_train` and `x_test`, (n, height, width), and their classes `y_train`
            and `y_test`, (n,).
        labels: The label of each class.
    """
    train, test = (
        Part(arrays[f"x_{part}"][:, None], arrays[f"y_{part}"].astype(np.int64))
        for part in ("train", "test")
    )
    return Raw(name, "images", train, labels, test)
