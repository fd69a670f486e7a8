"""Tasks of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ofcl.seeds import numpy_generator

Tasks = tuple[tuple[int, ...], ...]
"""The classes of each task."""


USUAL_TASKS = 5


def usual_tasks(classes: int) -> int:
    """How many tasks there are unless somebody says otherwise: five, fewer for few classes.

    >>> usual_tasks(100), usual_tasks(7), usual_tasks(2)
    (5, 3, 2)
    """
    return min(USUAL_TASKS, max(classes // 2, 2))


def class_tasks(order: np.ndarray, tasks: int, class_split: Literal["even", "floor"]) -> Tasks:
    """Cuts an order of classes into tasks.

    >>> class_tasks(np.arange(7), 3, "even"), class_tasks(np.arange(7), 3, "floor")
    (((0, 1, 2), (3, 4), (5, 6)), ((0, 1), (2, 3), (4, 5)))
    """
    if class_split == "floor":
        order = order[: len(order) // tasks * tasks]
    return tuple(tuple(int(c) for c in part) for part in np.array_split(order, tasks))


def blur(
    tasks: Sequence[np.ndarray], share: float, draw: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Lets a share of each task's rows come in its neighbours: half in the task before, half after.

    The first task has no task before, the last none after; there all of it goes the other way.

    >>> blurred = blur([np.arange(10), np.arange(10, 20)], 0.2, np.random.default_rng(0))
    >>> [(int((rows < 10).sum()), int((rows >= 10).sum())) for rows in blurred]
    [(8, 2), (2, 8)]
    """
    if len(tasks) < 2 or not share:
        return tuple(tasks)
    pieces: list[list[np.ndarray]] = [[] for _ in tasks]
    for t, rows in enumerate(tasks):
        rows = draw.permutation(rows)
        leaking = round(len(rows) * share)
        back = 0 if t == 0 else leaking if t == len(tasks) - 1 else leaking // 2
        pieces[t].append(rows[leaking:])
        if t > 0:
            pieces[t - 1].append(rows[:back])
        if t < len(tasks) - 1:
            pieces[t + 1].append(rows[back:leaking])
    return tuple(draw.permutation(np.concatenate(parts)) for parts in pieces)


def _used_classes(sizes: np.ndarray, drop_class: str) -> np.ndarray:
    used = np.arange(len(sizes))
    if drop_class == "smallest":
        return np.delete(used, int(np.argmin(sizes)))
    if drop_class == "last":
        return used[:-1]
    return used


def _class_order(
    used: np.ndarray, sizes: np.ndarray, class_order: str, seed: int, client: int | None
) -> np.ndarray:
    """The classes in the order of one client, or of all (None)."""
    if class_order == "size":
        return used[np.argsort(-sizes[used], kind="stable")]
    if class_order == "released":  # the paper's runs 0, 1, … are the seeds 0, 1, …
        number = seed if client is None else (seed + 1) * (client + 1)
        return np.random.RandomState(number % 2**32).permutation(used)
    return numpy_generator(seed, "class order", client or 0).permutation(used)
