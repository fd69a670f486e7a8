"""The scenario: which classes make which task, and which samples come to which client.

classes ─▶ an order ─▶ tasks            (`class_tasks`)
samples of a class ─▶ fewer of them     (`tail_shares`)
samples of a class ─▶ clients           (`even_parts`, `dirichlet_parts`)
all of it ─▶ what one client has        (`Share`)
tasks ─▶ tasks that run into each other (`blur`)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ofcl.data.splits import _deal
from ofcl.data.tasks import Tasks, _class_order, _used_classes, blur, class_tasks
from ofcl.errors import OfclError
from ofcl.seeds import numpy_generator


@dataclass(frozen=True)
class Share:
    """What one client has: its tasks, and for each task the rows of the data that are its own."""

    tasks: Tasks
    train: tuple[np.ndarray, ...]
    validation: tuple[np.ndarray, ...]
    test: tuple[np.ndarray, ...]


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
