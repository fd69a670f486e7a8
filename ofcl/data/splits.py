"""Splits."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ofcl.seeds import numpy_generator


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
