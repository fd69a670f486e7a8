"""Noisy training samples: wrong labels and broken inputs, to see what a method makes of them.

Only what a client learns from is changed; validation and test samples stay as they are. The draws
depend on the seed and the client alone, so all methods meet the same wrong labels and inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ofcl.data.dataset import Dataset, Kind
from ofcl.data.scenario import Share
from ofcl.data.tasks import Tasks
from ofcl.errors import OfclError
from ofcl.seeds import numpy_generator

COVERED = 0.8  # of each side of an image, where a part of it is covered


def noisy_train(
    dataset: Dataset,
    share: Share,
    client: int,
    seed: int,
    *,
    label_noise: float,
    input_noise: float,
) -> tuple[Tensor, Tensor, Sequence[np.ndarray]]:
    """Returns the train samples of one client, some with a wrong label or a broken input.

    Args:
        dataset: The whole dataset, which is not changed.
        share: The client's share of the dataset.
        client: The client's number.
        seed: The run's seed.
        label_noise: The share of the client's train samples that get a wrong label.
        input_noise: The share of the client's train samples whose input is broken.

    Returns:
        Samples (n, …), their classes (n,), and for each task the rows of these samples that the
        client learns. If both noises are 0, the samples are all train samples of the dataset;
        otherwise copies of the client's own.
    """
    if not (label_noise or input_noise):
        return dataset.x_train, dataset.y_train, share.train
    own = np.unique(np.concatenate(share.train))  # sorted: draws do not depend on the order
    rows = torch.from_numpy(own)
    x, y = dataset.x_train[rows.to(dataset.x_train.device)], dataset.y_train[rows]
    draw = numpy_generator(seed, "label noise", client)
    chosen = draw.permutation(len(own))[: round(label_noise * len(own))]
    y.numpy()[chosen] = wrong_labels(y.numpy()[chosen], share.tasks, draw)
    draw = numpy_generator(seed, "input noise", client)
    chosen = draw.permutation(len(own))[: round(input_noise * len(own))]
    places = torch.from_numpy(chosen).to(x.device)
    x[places] = break_inputs(x[places].cpu(), dataset.kind, draw).to(x.device)
    return x, y, tuple(np.searchsorted(own, task_rows) for task_rows in share.train)


def wrong_labels(y: np.ndarray, tasks: Tasks, draw: np.random.Generator) -> np.ndarray:
    """Draws a wrong class for each sample: another class of the same task.

    So a task has samples of its own classes only.

    >>> wrong_labels(np.array([0, 1, 2]), ((0, 1), (2, 3)), np.random.default_rng(0))
    array([1, 0, 3])

    Args:
        y: The right classes (n,).
        tasks: The classes of each task.
        draw: The generator to draw from.

    Raises:
        OfclError: A task has one class alone, so that there is no wrong one.
    """
    mates = {c: [other for other in task if other != c] for task in tasks for c in task}
    if not all(mates.values()):
        raise OfclError(
            "label_noise takes a wrong label from the same task, and a task has one class alone; "
            "use fewer tasks"
        )
    return np.array([draw.choice(mates[int(c)]) for c in y], dtype=np.int64)


def break_inputs(x: Tensor, kind: Kind, draw: np.random.Generator) -> Tensor:
    """Returns broken copies of samples; the way in which each is broken is drawn at random.

    An image becomes random pixels, or black, or a black square covers most of it. A vector becomes
    Gaussian noise of the same length, or its values change places.

    Args:
        x: The samples (n, …), on the CPU.
        kind: Whether they are images or vectors.
        draw: The generator to draw from.
    """
    ways = (_random_pixels, _blank, _covered) if kind == "image" else (_random_vector, _permuted)
    broken = [ways[int(draw.integers(len(ways)))](sample, draw) for sample in x.numpy()]
    return torch.from_numpy(np.stack(broken)).to(x.dtype) if broken else x


def _random_pixels(image: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    return draw.integers(0, 256, image.shape).astype(image.dtype)


def _blank(image: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    return np.zeros_like(image)


def _covered(image: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    height, width = (round(COVERED * side) for side in image.shape[1:])
    top = draw.integers(image.shape[1] - height + 1)
    left = draw.integers(image.shape[2] - width + 1)
    covered = image.copy()
    covered[:, top : top + height, left : left + width] = 0
    return covered


def _random_vector(vector: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    noise = draw.normal(size=vector.shape)
    length = np.linalg.norm(vector.astype(np.float64))
    random: np.ndarray = (noise * length / np.linalg.norm(noise)).astype(vector.dtype)
    return random


def _permuted(vector: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    return draw.permutation(vector)
