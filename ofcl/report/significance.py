"""Tests whether the difference of two experiments is real: a paired bootstrap.

Two experiments with the same seeds share tasks, data and many random draws. So their values are
compared within a seed and a client. Seeds are drawn again with replacement, and within each of them
clients; the middle 95 % of the mean differences are the interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ofcl.seeds import numpy_generator

RESAMPLES = 5000
_CERTAIN, _LIKELY = 1.96, 0.84  # normal quantiles: 95 % confidence, 80 % power
FEWEST = 2  # seeds that both experiments must have


@dataclass(frozen=True)
class Difference:
    """One experiment's value less another's, with a 95 % interval.

    Attributes:
        mean: The mean difference.
        low: The lower end of the interval.
        high: The upper end of the interval.
        seeds: How many seeds both experiments have.
        seeds_needed: How many seeds would show a difference of this size; None: more than 1,000.
    """

    mean: float
    low: float
    high: float
    seeds: int
    seeds_needed: int | None

    @property
    def real(self) -> bool:
        """Says whether zero is outside of the interval."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        interval = f"{self.mean:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"
        if self.real:
            return interval
        more = "many" if self.seeds_needed is None else f"about {self.seeds_needed}"
        return f"{interval}, not clear: {more} seeds"


def paired_difference(
    first: Mapping[int, Sequence[float]], second: Mapping[int, Sequence[float]]
) -> Difference | None:
    """Computes the difference of two experiments, seed by seed and client by client.

    Args:
        first: For each seed, the value of each client in the first experiment.
        second: For each seed, the value of each client in the second experiment.

    Returns:
        The first less the second; None if they have fewer than two seeds in common.

    >>> first, second = {0: [10.0, 12.0], 1: [11.0, 13.0]}, {0: [1.0, 3.0], 1: [2.0, 4.0]}
    >>> str(paired_difference(first, second))
    '+9.0 [+9.0, +9.0]'
    """
    common = sorted(first.keys() & second.keys())
    common = [seed for seed in common if len(first[seed]) == len(second[seed]) > 0]
    if len(common) < FEWEST:
        return None
    differences = [np.subtract(first[seed], second[seed]) for seed in common]
    weights = _resamples(tuple(map(len, differences)), RESAMPLES)
    means = weights @ np.concatenate(differences)
    by_seed = [float(values.mean()) for values in differences]
    low, high = np.quantile(means, [0.025, 0.975])
    mean = float(np.mean(by_seed))
    return Difference(mean, float(low), float(high), len(common), seeds_needed(by_seed))


@lru_cache(maxsize=8)
def _resamples(clients: tuple[int, ...], resamples: int) -> np.ndarray:
    """Draws seeds and clients again, as the weight of each value in each resample's mean.

    The draws depend on these numbers alone, so that a table of many experiments draws once.

    Args:
        clients: The number of clients of each seed.
        resamples: The number of resamples.

    Returns:
        The weights (resamples, values), the values seed after seed.
    """
    draw = numpy_generator(0, "bootstrap")
    starts = np.cumsum([0, *clients])
    weights = np.zeros((resamples, int(starts[-1])))
    for row in weights:
        for seed in draw.integers(len(clients), size=len(clients)):
            drawn = draw.integers(clients[seed], size=clients[seed])
            np.add.at(row, starts[seed] + drawn, 1 / (clients[seed] * len(clients)))
    return weights


def seeds_needed(differences: Sequence[float], most: int = 1000) -> int | None:
    """Estimates how many seeds would tell a mean difference from none in 80 % of the cases.

    Args:
        differences: The difference within each seed.
        most: The largest number of seeds that is worth naming.

    Returns:
        The number of seeds; None if it is larger than `most`.

    >>> seeds_needed([1.0, 3.0, 2.0]), seeds_needed([1.0, -1.0])
    (2, None)
    """
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if mean == 0:
        return None
    needed = max(math.ceil(((_CERTAIN + _LIKELY) * spread / mean) ** 2), FEWEST)
    return needed if needed <= most else None
