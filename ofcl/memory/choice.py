"""Choices: which samples of a class stay where it has more of them than room.

The key of a sample is its uncertainty, or a random number. The plain choice keeps the smallest
keys. Others draw samples with a preference for some keys, spread them over the range of the keys,
or keep samples apart whose features are near each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ofcl.memory.table import Table
from ofcl.seeds import scattered

Priority = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""The keys (n,) of samples, and the numbers of their arrivals (n,) → priorities (n,); the samples
with the largest priorities leave the memory first."""

Thinning = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
"""The priorities (n,) of a class's samples, the distances between the samples (n, n), infinite if
not measured, and the number of samples that may stay → a mask of the samples that stay (n,)."""

MOST_COMPARED = 64  # samples of a class whose distances are measured with a mini-batch
LEAST_SCORE = 1e-12  # a power of zero would be infinite, or not a number


def keep_key(key: np.ndarray, arrival: np.ndarray) -> np.ndarray:
    """Returns the keys unchanged, as priorities: the samples with the smallest keys stay.

    Args:
        key: The key of each sample (n,).
        arrival: Not used; every `Priority` takes the numbers of the samples' arrivals.
    """
    return key


@dataclass(frozen=True)
class Choice:
    """The rule by which a policy chooses the samples of a class that stay in a memory.

    Args:
        priority: Turns keys into priorities; the samples with the smallest priorities stay.
        thinning: Chooses among all samples of a class at once, given their priorities; None: the
            smallest priorities decide.
        by_distance: Whether the thinning needs the distances between samples.
        compare_all: Whether the distances between all samples of a class are measured; if not, of
            `MOST_COMPARED` at most.
        hands_on: Whether the keys of samples that go are handed on to those of their class that
            stay, so that a class's sum of keys does not change.
    """

    priority: Priority = keep_key
    thinning: Thinning | None = None
    by_distance: bool = False
    compare_all: bool = False
    hands_on: bool = False

    def order(
        self, key: np.ndarray, arrival: np.ndarray, distances: np.ndarray, room: int
    ) -> np.ndarray:
        """Orders the samples of a class so that those that stay come first.

        Args:
            key: The key of each sample (n,).
            arrival: The number of each sample's arrival (n,).
            distances: The distances between samples (n, n), infinite if not measured; empty unless
                `by_distance`.
            room: The number of samples that may stay.

        Returns:
            The indices of the samples (n,): the first `room` of them stay.
        """
        priority = self.priority(key, arrival)
        if self.thinning is None:
            return np.argsort(priority, kind="stable")
        return np.argsort(~self.thinning(priority, distances, room), kind="stable")


def weighted(beta: float, seed: int) -> Choice:
    """Makes the choice of a weighted reservoir: a random draw, with weights by the samples' scores.

    A sample stays with a weight of score^−β (Efraimidis & Spirakis 2006). Its priority is the
    logarithm of score^β times an exponential random number. β = 0 draws as CBR does, β < 0 prefers
    uncertain samples, and a large β keeps the least uncertain as `bottom` does. The random number
    depends on the seed and the sample's arrival: it is the same when the sample is scored again.

    >>> scores, arrivals = np.array([1.0, 4.0]), np.array([7, 7])
    >>> even, uncertain = (weighted(beta, seed=1).priority(scores, arrivals) for beta in (0, -0.5))
    >>> float(even[0] - even[1]), float(np.exp(uncertain[0] - uncertain[1]).round(6))
    (0.0, 2.0)

    Args:
        beta: The power β of the score.
        seed: The seed of the random numbers, different for each client.
    """

    def priority(key: np.ndarray, arrival: np.ndarray) -> np.ndarray:
        scores = np.maximum(key.astype(np.float64), LEAST_SCORE)
        drawn: np.ndarray = np.log(-np.log(scattered(seed, arrival))) + beta * np.log(scores)
        return drawn

    return Choice(priority)


def thin_evenly(priority: np.ndarray, distances: np.ndarray, room: int) -> np.ndarray:
    """Chooses samples that are spread evenly over the range of their priorities.

    With the samples in the order of their priorities, the one whose two neighbours are nearest to
    each other goes, again and again until `room` samples are left. The first and the last stay.

    >>> thin_evenly(np.array([0.0, 1.0, 5.0, 9.0, 10.0]), np.empty(0), 3).tolist()
    [True, False, True, False, True]

    Args:
        priority: The priority of each sample of a class (n,).
        distances: Not used; every `Thinning` takes the distances between samples.
        room: The number of samples that stay.

    Returns:
        A mask of the samples that stay (n,).
    """
    order = np.argsort(priority, kind="stable")
    while len(order) > room:
        values = priority[order]
        inner = values[2:] - values[:-2]  # what would be between the neighbours of each
        goes = int(np.argmin(inner)) + 1 if len(inner) else len(order) - 1
        order = np.delete(order, goes)
    return np.isin(np.arange(len(priority)), order)


def thin_nearest(priority: np.ndarray, distances: np.ndarray, room: int) -> np.ndarray:
    """Chooses samples that are far from each other.

    Of the two samples nearest to each other, the one with the larger priority goes, again and again
    until `room` samples are left. If no distance between the remaining ones was measured, the
    sample with the largest priority goes.

    >>> apart = np.array([[0, 1, 9], [1, 0, 8], [9, 8, 0]], dtype=float)
    >>> thin_nearest(np.array([0.2, 0.1, 0.3]), apart, 2).tolist()
    [False, True, True]

    Args:
        priority: The priority of each sample of a class (n,).
        distances: The distances between the samples (n, n), infinite if not measured.
        room: The number of samples that stay.

    Returns:
        A mask of the samples that stay (n,).
    """
    apart = distances.copy()
    np.fill_diagonal(apart, np.inf)
    staying = np.ones(len(priority), dtype=bool)
    for _ in range(len(priority) - room):
        one, other = np.unravel_index(int(np.argmin(apart)), apart.shape)
        if np.isinf(apart[one, other]):  # nobody has measured those that are left
            goes = int(np.argmax(np.where(staying, priority, -np.inf)))
        else:
            goes = int(one if priority[one] > priority[other] else other)
        staying[goes] = False
        apart[goes], apart[:, goes] = np.inf, np.inf
    return staying


SPREAD = Choice(thinning=thin_evenly)
"""Samples spread over the range of the keys."""

DIVERSE = Choice(thinning=thin_nearest, by_distance=True)
"""Samples whose features are far from each other; of two near ones, the smaller key stays."""


def rows_to_compare(
    table: Table, crowded: Sequence[np.ndarray], moment: int, compare_all: bool = False
) -> np.ndarray:
    """Chooses the rows whose distances are measured: some of each crowded class, at random.

    Args:
        table: The memory's table.
        crowded: The rows of each class that has more samples than room.
        moment: A number that differs from mini-batch to mini-batch; so the random choice does too.
        compare_all: Whether all rows of a class are taken; if not, `MOST_COMPARED` at most.

    Returns:
        The rows in ascending order; empty if no class is crowded.
    """
    some, most = [np.empty(0, dtype=np.int64)], None if compare_all else MOST_COMPARED
    for rows in crowded:
        drawn = np.argsort(scattered(moment, table.id[rows]), kind="stable")[:most]
        some.append(rows[drawn])
    return np.sort(np.concatenate(some))
