"""Splits of the data: how the samples of each class are dealt out to the clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ofcl.seeds import numpy_generator

PARTS = ("train", "validation", "test")

RowsOfClients = dict[int, list[np.ndarray]]
"""For each class, the rows that each client gets."""


def even_parts(
    rows: np.ndarray, clients: int, first: int, remainder: Literal["deal", "drop"]
) -> list[np.ndarray]:
    """Cuts the rows of a class into equal parts, one for each client.

    Args:
        rows: The rows of the class.
        clients: The number of clients.
        first: The client that gets the first of the rows that cannot be divided evenly.
        remainder: `deal` gives these rows to the clients from `first` on, one each; `drop` leaves
            them out.

    >>> [part.tolist() for part in even_parts(np.arange(5), 3, first=1, remainder="deal")]
    [[0], [1, 2], [3, 4]]
    """
    sizes = np.full(clients, len(rows) // clients)
    if remainder == "deal":
        sizes[(first + np.arange(len(rows) % clients)) % clients] += 1
    return np.split(rows[: sizes.sum()], np.cumsum(sizes)[:-1])


def dirichlet_parts(rows: np.ndarray, shares: np.ndarray) -> list[np.ndarray]:
    """Cuts the rows of a class into one part for each client, by the clients' shares.

    Args:
        rows: The rows of the class.
        shares: The share of each client; together they are 1.

    >>> [len(part) for part in dirichlet_parts(np.arange(10), np.array([0.5, 0.3, 0.2]))]
    [5, 3, 2]
    """
    return np.split(rows, np.round(np.cumsum(shares)[:-1] * len(rows)).astype(int))


def tail_shares(classes: int, imbalance: float, draw: np.random.Generator) -> np.ndarray:
    """Draws the share of its samples that each class keeps in a long-tailed dataset.

    Shares fall from 1 to 1 / imbalance, by the same factor from class to class; which class has
    which share is random.

    Args:
        classes: The number of classes.
        imbalance: How many times larger the largest share is than the smallest.
        draw: The generator that assigns the shares.

    >>> sorted(tail_shares(3, 100, np.random.default_rng(0)).round(2).tolist())
    [0.01, 0.1, 1.0]
    """
    steps = np.arange(classes) / max(classes - 1, 1)
    return draw.permutation(imbalance**-steps)


@dataclass(frozen=True)
class Split:
    """Deals the samples of each class out to the clients.

    Args:
        clients: The number of clients.
        kind: `even` gives every client as many samples of a class as any other; `dirichlet` draws
            the clients' shares of each class.
        alpha: The parameter of the Dirichlet distribution; the smaller, the more uneven.
        remainder: Whether samples that cannot be divided evenly are dealt one by one (`deal`) or
            left out (`drop`).
        validation: The share of the train samples that is set aside for validation, unless the
            dataset has validation samples of its own.
        imbalance: How many times more samples the most frequent class keeps than the rarest.
    """

    clients: int
    kind: Literal["even", "dirichlet"]
    alpha: float
    remainder: Literal["deal", "drop"]
    validation: float
    imbalance: float

    def deal(
        self,
        y_train: np.ndarray,
        y_validation: np.ndarray | None,
        y_test: np.ndarray,
        classes: np.ndarray,
        seed: int,
    ) -> dict[str, RowsOfClients]:
        """Deals the train, validation and test rows of some classes out to the clients.

        Args:
            y_train: The class of each train sample.
            y_validation: The class of each validation sample; None: they are taken from train.
            y_test: The class of each test sample.
            classes: The classes that are dealt.
            seed: The run's seed.

        Returns:
            For `train`, `validation` and `test`: the rows that each client gets of each class.
        """
        dealt: dict[str, RowsOfClients] = {part: {} for part in PARTS}
        first = dict.fromkeys(PARTS, 0)  # the client who gets the next class's remainder first
        tail = tail_shares(len(classes), self.imbalance, numpy_generator(seed, "long tail"))
        for c, share in zip(classes.tolist(), tail.tolist(), strict=True):
            draw = numpy_generator(seed, "split", c)
            rows = draw.permutation(np.flatnonzero(y_train == c))
            rows = rows[: max(round(len(rows) * share), 1)]
            if y_validation is None:
                train, validation = self._set_aside(rows)
            else:
                train, validation = rows, np.flatnonzero(y_validation == c)
            shares = draw.dirichlet(np.full(self.clients, self.alpha))
            pieces = {
                "train": train,
                "validation": validation,
                "test": np.flatnonzero(y_test == c),
            }
            for part, piece in pieces.items():
                if self.kind == "dirichlet":
                    dealt[part][c] = dirichlet_parts(piece, shares)
                else:
                    dealt[part][c] = even_parts(piece, self.clients, first[part], self.remainder)
                    first[part] = (first[part] + len(piece)) % self.clients
        return dealt

    def _set_aside(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Divides the train rows of a class; returns those to learn and those for validation."""
        validated = len(rows) - int(len(rows) * (1 - self.validation))
        validated = min(validated, len(rows) - 1)  # something is left to learn
        return rows[validated:], rows[:validated]
