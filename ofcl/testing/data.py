"""Small data and settings, on which a run takes a fraction of a second."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ofcl.data.dataset import Dataset
from ofcl.seeds import generator

TINY: dict[str, Any] = {
    "protocol": "sound",
    "clients": 2,
    "tasks": 3,
    "batch_size": 5,
    "memory": 12,
    "burn_in": 3,
    "q": 2,
    "hidden": 16,
    "steps": 2,
}
"""Settings for `make_blobs`, under `sound`: several rounds in each task."""

TINY_IMAGES: dict[str, Any] = {**TINY, "tasks": 2, "width": 2, "burn_in": 2, "lr": 0.02}
"""Settings for `make_images`: several rounds in each task."""


def make_blobs(
    classes: int = 6, train: int = 40, test: int = 10, features: int = 8, seed: int = 0
) -> Dataset:
    """Makes a dataset of vectors, scattered around one centre for each class: easy to learn.

    Args:
        classes: The number of classes.
        train: The number of train samples of each class.
        test: The number of test samples of each class.
        features: The length of a vector.
        seed: The seed of all random numbers.
    """
    draw = generator(seed, "blobs")
    centres = torch.randn(classes, features, generator=draw) * 2

    def part(n: int) -> tuple[Tensor, Tensor]:
        """Draws n samples of each class; returns them and their classes."""
        y = torch.arange(classes).repeat_interleave(n)
        return centres[y] + 0.3 * torch.randn(len(y), features, generator=draw), y

    (x_train, y_train), (x_test, y_test) = part(train), part(test)
    labels = tuple(f"class {c}" for c in range(classes))
    return Dataset("blobs", "vector", x_train, y_train, x_test, y_test, labels)


def make_images(
    classes: int = 4,
    train: int = 24,
    test: int = 6,
    side: int = 8,
    channels: int = 1,
    seed: int = 0,
) -> Dataset:
    """Makes a dataset of noisy images with a bright square, whose place depends on the class.

    Args:
        classes: The number of classes; at most (side / 4) · 2.
        train: The number of train images of each class.
        test: The number of test images of each class.
        side: The height and width of an image.
        channels: The number of colour channels.
        seed: The seed of all random numbers.
    """
    draw = generator(seed, "images")

    def part(n: int) -> tuple[Tensor, Tensor]:
        """Draws n images of each class; returns them and their classes."""
        y = torch.arange(classes).repeat_interleave(n)
        x = torch.randint(0, 80, (len(y), channels, side, side), generator=draw)
        for i, c in enumerate(y.tolist()):
            row, column = divmod(c, 2)
            x[i, :, row * 4 : row * 4 + 4, column * 4 : column * 4 + 4] += 150
        return x.to(torch.uint8), y

    (x_train, y_train), (x_test, y_test) = part(train), part(test)
    labels = tuple(f"place {c}" for c in range(classes))
    mean, std = (0.3,) * channels, (0.25,) * channels
    return Dataset("images", "image", x_train, y_train, x_test, y_test, labels, mean, std)
