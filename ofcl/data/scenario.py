"""The scenario of a run: which samples each client learns from, in which tasks.

classes ─▶ an order ─▶ tasks               (`tasks.class_tasks`)
samples of a class ─▶ fewer of them        (`splits.tail_shares`)
samples of a class ─▶ clients              (`splits.even_parts`, `splits.dirichlet_parts`)
tasks ─▶ tasks that run into each other    (`tasks.blur`)
all of this ─▶ the tasks of one client     (`Share`)
tasks of one client ─▶ one task, for a bound (`joint_share`)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ofcl.data.splits import PARTS, Split
from ofcl.data.tasks import Tasks, blur, class_tasks, order_classes, used_classes
from ofcl.errors import OfclError
from ofcl.seeds import numpy_generator

NAMED_AT_MOST = 5  # clients whose numbers a message gives


@dataclass(frozen=True)
class Share:
    """One client's share of the data.

    Args:
        tasks: The classes of each task.
        train: For each task, the rows of the train samples that the client learns. A joint share
            has one entry, with the rows of all tasks.
        validation: For each task, the rows of the client's validation samples.
        test: For each task, the rows of the client's test samples.
    """

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
    first_task: int | None = None,
) -> list[Share]:
    """Deals the data out: one `Share` for each client.

    Args:
        y_train: The class of each train sample.
        y_test: The class of each test sample.
        classes: The number of classes that were known when the run began. Classes from this number
            on have come later: they are in the last task.
        y_validation: The class of each validation sample, or None to set train samples aside.
        seed: The run's seed.
        clients: The number of clients.
        tasks: The number of tasks of each client.
        class_order: How the classes are ordered before they are cut into tasks: drawn from the seed
            (`random`), drawn as in the paper's released code (`released`), or the largest class
            first (`size`).
        task_order: `overlap` gives all clients the same order of classes; `non-overlap` gives each
            client its own.
        class_split: Where classes cannot be divided evenly, `even` makes some tasks larger and
            `floor` drops classes.
        drop_class: `smallest` leaves out the class with the fewest train samples, `last` the class
            with the largest number, `none` no class.
        split: How the samples of a class are dealt: in equal parts (`even`) or by shares drawn from
            a Dirichlet distribution (`dirichlet`).
        alpha: The parameter of that distribution; the smaller, the more uneven.
        remainder: Whether samples that cannot be divided evenly are dealt one by one (`deal`) or
            left out (`drop`).
        validation: The share of the train samples that is set aside for validation.
        blurry: The share of each task's samples that comes in a neighbouring task.
        imbalance: How many times more samples the most frequent class keeps than the rarest.
        first_task: The number of the first task, for a run that goes on where another has ended.
            Its tasks are made of the classes that have train samples; the others came before. None:
            the run goes on from none.

    Raises:
        OfclError: There are more tasks than classes, or a client would get no data.

    >>> y = np.repeat(np.arange(4), 20)
    >>> shares = build_scenario(y, y, 4, seed=0, clients=2, tasks=2, validation=0.0)
    >>> [len(rows) for rows in shares[0].train]
    [20, 20]
    """
    if clients > len(y_train):
        raise _without_data(clients - len(y_train), clients, len(y_train))
    sizes = np.bincount(y_train, minlength=classes)
    used = used_classes(sizes[:classes], drop_class)
    if first_task is not None:
        used = used[sizes[used] > 0]
    late = np.arange(classes, len(sizes))
    if tasks > len(used):
        raise OfclError(
            f"{tasks} tasks need at least {tasks} classes, but there are {len(used)}; "
            f"set tasks to at most {len(used)}"
        )
    tasks_of_clients = []
    for client in range(clients):
        own_order = client if task_order == "non-overlap" else None
        order = order_classes(used, sizes, class_order, seed, own_order)
        tasks_of_clients.append(class_tasks(order, tasks, class_split))
    if len(late):
        tasks_of_clients = [(*t[:-1], (*t[-1], *late.tolist())) for t in tasks_of_clients]
        used = np.concatenate([used, late])
    dealt = Split(clients, split, alpha, remainder, validation, imbalance).deal(
        y_train, y_validation, y_test, used, seed
    )
    shares = []
    for k, tasks_of_client in enumerate(tasks_of_clients):
        rows_of_parts = [
            tuple(
                _shuffled([dealt[part][c][k] for c in task], seed, part, k, t)
                for t, task in enumerate(tasks_of_client, first_task or 0)
            )
            for part in PARTS
        ]
        shares.append(Share(tasks_of_client, *rows_of_parts))
    _refuse_empty(shares, len(y_train))
    return [
        replace(share, train=blur(share.train, blurry, numpy_generator(seed, "blurry", k)))
        for k, share in enumerate(shares)
    ]


def joint_share(share: Share, most: int | None, seed: int, client: int) -> Share:
    """Makes one task of all tasks: a client's train samples come in any order, all classes mixed.

    Validation and test samples stay with their tasks, so that accuracies can be compared.

    Args:
        share: The client's share.
        most: The number of train samples of each task that are used at most; None: all of them.
        seed: The run's seed.
        client: The client's number.

    >>> rows = (np.array([0, 1, 2]), np.array([3, 4]))
    >>> joint = joint_share(Share(((0,), (1,)), rows, rows, rows), most=2, seed=0, client=0)
    >>> [sorted(task.tolist()) for task in joint.train]
    [[0, 1, 3, 4]]
    """
    rows = np.concatenate([task_rows[:most] for task_rows in share.train])
    return replace(share, train=(numpy_generator(seed, "joint", client).permutation(rows),))


def _shuffled(pieces: list[np.ndarray], seed: int, part: str, client: int, task: int) -> np.ndarray:
    """Joins rows and puts them into a random order.

    Args:
        pieces: The rows of each class of a task.
        seed: The run's seed; the order depends on it and on the next three.
        part: `train`, `validation` or `test`.
        client: The client's number.
        task: The task's number.
    """
    rows = np.concatenate(pieces)
    return numpy_generator(seed, "order", part, client, task).permutation(rows)


def _refuse_empty(shares: list[Share], samples: int) -> None:
    """Raises an error if a client has no train samples.

    Args:
        shares: The share of each client.
        samples: The number of train samples in the dataset, for the message.
    """
    empty = [k for k, share in enumerate(shares) if not any(len(rows) for rows in share.train)]
    if empty:
        numbers = ", ".join(map(str, empty[:NAMED_AT_MOST]))
        more = ", …" if len(empty) > NAMED_AT_MOST else ""
        raise _without_data(len(empty), len(shares), samples, f" ({numbers}{more})")


def _without_data(empty: int, clients: int, samples: int, numbers: str = "") -> OfclError:
    """Makes the error that clients would get no data.

    Args:
        empty: The number of clients without data.
        clients: The number of all clients.
        samples: The number of train samples in the dataset.
        numbers: The numbers of the clients without data, as text; empty: they are not named.
    """
    return OfclError(
        f"the split leaves {empty} of {clients} clients without data{numbers}: {samples} samples "
        "in all; use fewer clients, a larger alpha, or split = 'even'"
    )
