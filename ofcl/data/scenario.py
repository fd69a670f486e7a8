"""The scenario: which classes make which task, and which samples come to which client.

classes ─▶ an order ─▶ tasks            (`class_tasks`)
samples of a class ─▶ fewer of them     (`tail_shares`)
samples of a class ─▶ clients           (`even_parts`, `dirichlet_parts`)
all of it ─▶ what one client has        (`Share`)
tasks ─▶ tasks that run into each other (`blur`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ofcl.errors import OfclError
from ofcl.seeds import numpy_generator

Tasks = tuple[tuple[int, ...], ...]
"""The classes of each task."""


@dataclass(frozen=True)
class Share:
    """What one client has: its tasks, and for each task the rows of the data that are its own."""

    tasks: Tasks
    train: tuple[np.ndarray, ...]
    validation: tuple[np.ndarray, ...]
    test: tuple[np.ndarray, ...]


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


def even_parts(
    rows: np.ndarray, clients: int, first: int, remainder: Literal["deal", "drop"]
) -> list[np.ndarray]:
    """Cuts the rows of a class into equal parts; a rest is dealt from `first` on, or dropped.

    >>> [part.tolist() for part in even_parts(np.arange(5), 3, first=1, remainder="deal")]
    [[0], [1, 2], [3, 4]]
    """
    sizes = np.full(clients, len(rows) // clients)
    if remainder == "deal":
        sizes[(first + np.arange(len(rows) % clients)) % clients] += 1
    return np.split(rows[: sizes.sum()], np.cumsum(sizes)[:-1])


def dirichlet_parts(rows: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """Cuts the rows of a class by the clients' shares.

    >>> [len(part) for part in dirichlet_parts(np.arange(10), np.array([0.5, 0.3, 0.2]))]
    [5, 3, 2]
    """
    return np.split(rows, np.round(np.cumsum(shares)[:-1] * len(rows)).astype(int))


def tail_shares(classes: int, imbalance: float, draw: np.random.Generator) -> np.ndarray:
    """The share of each class's samples that a long tail leaves, from 1 to 1 / imbalance.

    Shares fall by the same factor from class to class; which class has which is drawn.

    >>> sorted(tail_shares(3, 100, np.random.default_rng(0)).round(2).tolist())
    [0.01, 0.1, 1.0]
    """
    steps = np.arange(classes) / max(classes - 1, 1)
    return draw.permutation(imbalance**-steps)


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


def build_scenario(
    y_train: np.ndarray,
    y_test: np.ndarray,
    classes: int,
    *,
    y_validation: np.ndarray | None = None,
    seed: int,
    clients: int = 5,
    tasks: int = 5,
    class_order: Literal["random", "released", "size"] = "random",
    task_order: Literal["overlap", "non-overlap"] = "overlap",
    class_split: Literal["even", "floor"] = "even",
    drop_class: Literal["none", "smallest", "last"] = "none",
    split: Literal["even", "dirichlet"] = "even",
    alpha: float = 0.5,
    remainder: Literal["deal", "drop"] = "deal",
    validation: float = 0.05,
    blurry: float = 0.0,
    imbalance: float = 1.0,
) -> list[Share]:
    """Deals the data out: one `Share` for each client.

    Validation data are those of `y_validation` or, without them, a share of the train data. Labels
    from `classes` on have come later than the others: they are in the last task.

    >>> y = np.repeat(np.arange(4), 20)
    >>> shares = build_scenario(y, y, 4, seed=0, clients=2, tasks=2, validation=0.0)
    >>> [len(rows) for rows in shares[0].train]
    [20, 20]
    """
    if clients > len(y_train):
        raise _without_data(clients - len(y_train), clients, len(y_train))
    sizes = np.bincount(y_train, minlength=classes)
    used = _used_classes(sizes[:classes], drop_class)
    late = np.arange(classes, len(sizes))
    if tasks > len(used):
        raise OfclError(
            f"{tasks} tasks need at least {tasks} classes, but there are {len(used)}; "
            f"set tasks to at most {len(used)}"
        )
    tasks_of_clients = [
        class_tasks(
            _class_order(
                used, sizes, class_order, seed, client if task_order == "non-overlap" else None
            ),
            tasks,
            class_split,
        )
        for client in range(clients)
    ]
    if len(late):
        tasks_of_clients = [(*t[:-1], (*t[-1], *late.tolist())) for t in tasks_of_clients]
        used = np.concatenate([used, late])
    parts = _deal(y_train, y_validation, y_test, used, seed, clients, split, alpha, remainder,
                  validation, imbalance)  # fmt: skip
    shares = [
        Share(
            tasks_of_clients[k],
            *(
                tuple(
                    _shuffled([parts[what][c][k] for c in task], seed, what, k, t)
                    for t, task in enumerate(tasks_of_clients[k])
                )
                for what in ("train", "validation", "test")
            ),
        )
        for k in range(clients)
    ]
    _refuse_empty(shares, len(y_train))
    return [
        replace(share, train=blur(share.train, blurry, numpy_generator(seed, "blurry", k)))
        for k, share in enumerate(shares)
    ]


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


Parts = dict[int, list[np.ndarray]]
"""For each class, the rows of each client."""


def _deal(
    y_train: np.ndarray,
    y_validation: np.ndarray | None,
    y_test: np.ndarray,
    used: np.ndarray,
    seed: int,
    clients: int,
    split: str,
    alpha: float,
    remainder: Literal["deal", "drop"],
    validation: float,
    imbalance: float,
) -> dict[str, Parts]:
    parts: dict[str, Parts] = {"train": {}, "validation": {}, "test": {}}
    first = dict.fromkeys(parts, 0)  # the client to whom the next class's rest is dealt first
    tail = tail_shares(len(used), imbalance, numpy_generator(seed, "long tail"))
    for c, share in zip(used.tolist(), tail.tolist(), strict=True):
        draw = numpy_generator(seed, "split", c)
        rows = draw.permutation(np.flatnonzero(y_train == c))
        rows = rows[: max(round(len(rows) * share), 1)]
        held = len(rows) - int(len(rows) * (1 - validation)) if y_validation is None else 0
        held = min(held, len(rows) - 1)  # something is left to learn
        validated = rows[:held] if y_validation is None else np.flatnonzero(y_validation == c)
        shares = draw.dirichlet(np.full(clients, alpha))
        pieces = {
            "train": rows[held:],
            "validation": validated,
            "test": np.flatnonzero(y_test == c),
        }
        for what, piece in pieces.items():
            if split == "dirichlet":
                parts[what][c] = dirichlet_parts(piece, shares)
            else:
                parts[what][c] = even_parts(piece, clients, first[what], remainder)
                first[what] = (first[what] + len(piece)) % clients
    return parts


def _shuffled(pieces: list[np.ndarray], seed: int, what: str, client: int, task: int) -> np.ndarray:
    rows = np.concatenate(pieces)
    return numpy_generator(seed, "order", what, client, task).permutation(rows)


def _refuse_empty(shares: list[Share], samples: int) -> None:
    empty = [k for k, share in enumerate(shares) if not any(len(rows) for rows in share.train)]
    if empty:
        named = ", ".join(map(str, empty[:5])) + (", …" if len(empty) > 5 else "")
        raise _without_data(len(empty), len(shares), samples, f" ({named})")


def _without_data(empty: int, clients: int, samples: int, named: str = "") -> OfclError:
    return OfclError(
        f"the split leaves {empty} of {clients} clients without data{named}: {samples} samples "
        "in all; use fewer clients, a larger alpha, or split = 'even'"
    )
