"""Tasks of class-incremental learning: which classes make which task, and how tasks blur."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ofcl.seeds import numpy_generator

Tasks = tuple[tuple[int, ...], ...]
"""The classes of each task, in the order in which the tasks come."""

USUAL_TASKS = 5


def usual_tasks(classes: int) -> int:
    """Chooses the number of tasks if the settings name none: five, fewer for few classes.

    Args:
        classes: The number of classes of the dataset.

    >>> usual_tasks(100), usual_tasks(7), usual_tasks(2)
    (5, 3, 2)
    """
    return min(USUAL_TASKS, max(classes // 2, 2))


def class_tasks(order: np.ndarray, tasks: int, class_split: Literal["even", "floor"]) -> Tasks:
    """Cuts an order of classes into tasks.

    Args:
        order: The classes, in the order in which a client meets them.
        tasks: The number of tasks.
        class_split: If the classes cannot be divided evenly, `even` gives the first tasks one class
            more; `floor` drops the last classes.

    >>> class_tasks(np.arange(7), 3, "even"), class_tasks(np.arange(7), 3, "floor")
    (((0, 1, 2), (3, 4), (5, 6)), ((0, 1), (2, 3), (4, 5)))
    """
    if class_split == "floor":
        order = order[: len(order) // tasks * tasks]
    return tuple(tuple(int(c) for c in part) for part in np.array_split(order, tasks))


def used_classes(sizes: np.ndarray, drop_class: Literal["none", "smallest", "last"]) -> np.ndarray:
    """Lists the classes that a run uses.

    Args:
        sizes: The number of train samples of each class.
        drop_class: `smallest` leaves out the class with the fewest train samples, `last` the class
            with the largest number, `none` no class.
    """
    classes = np.arange(len(sizes))
    if drop_class == "smallest":
        return np.delete(classes, int(np.argmin(sizes)))
    if drop_class == "last":
        return classes[:-1]
    return classes


def order_classes(
    classes: np.ndarray,
    sizes: np.ndarray,
    class_order: Literal["random", "released", "size"],
    seed: int,
    client: int | None,
) -> np.ndarray:
    """Puts classes into the order in which they come.

    Args:
        classes: The classes to be ordered.
        sizes: The number of train samples of every class, which `size` orders them by.
        class_order: `random` draws an order from the seed; `released` draws the order that the
            paper's released code has in its run of that number; `size` takes the largest class
            first.
        seed: The run's seed.
        client: The client whose own order is returned; None: the order that all clients share.
    """
    if class_order == "size":
        return classes[np.argsort(-sizes[classes], kind="stable")]
    if class_order == "released":
        number = seed if client is None else (seed + 1) * (client + 1)
        return np.random.RandomState(number % 2**32).permutation(classes)
    return numpy_generator(seed, "class order", client or 0).permutation(classes)


def blur(
    tasks: Sequence[np.ndarray], share: float, draw: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Moves a share of each task's rows into its neighbours: half to the task before, half after.

    The first task has no task before it and the last none after it: all their moving rows go to
    their only neighbour.

    Args:
        tasks: The rows of each task.
        share: The share of a task's rows that moves, from 0 to 1.
        draw: The generator that chooses the rows.

    Returns:
        The rows of each task, shuffled. If nothing moves, the tasks as they were.

    >>> blurred = blur([np.arange(10), np.arange(10, 20)], 0.2, np.random.default_rng(0))
    >>> [(int((rows < 10).sum()), int((rows >= 10).sum())) for rows in blurred]
    [(8, 2), (2, 8)]
    """
    if len(tasks) < 2 or not share:
        return tuple(tasks)
    last = len(tasks) - 1
    pieces: list[list[np.ndarray]] = [[] for _ in tasks]
    for t, rows in enumerate(tasks):
        rows = draw.permutation(rows)
        leaking = round(len(rows) * share)
        back = leaking // 2
        if t == 0:
            back = 0
        elif t == last:
            back = leaking
        pieces[t].append(rows[leaking:])
        if t > 0:
            pieces[t - 1].append(rows[:back])
        if t < last:
            pieces[t + 1].append(rows[back:leaking])
    return tuple(draw.permutation(np.concatenate(parts)) for parts in pieces)
