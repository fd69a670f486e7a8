"""Ranks of methods with intervals: a bootstrap over seeds that all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ofcl.report.significance import FEWEST, RESAMPLES
from ofcl.seeds import numpy_generator

BySeed = Mapping[int, float]


@dataclass(frozen=True)
class Rank:
    """The rank of a method; 1 is the best.

    Args:
        mean: The rank by the mean over seeds; over several contests, the mean of the ranks.
        low: The lower end of the 95 % interval; None: there are too few seeds.
        high: The upper end of the interval.
    """

    mean: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        mean = f"{self.mean:.1f}".removesuffix(".0")
        if self.low is None or self.high is None:
            return mean
        low, high = (f"{end:.1f}".removesuffix(".0") for end in (self.low, self.high))
        return f"{mean} [{low}, {high}]"


def ranks(contests: Sequence[Mapping[str, BySeed]]) -> dict[str, Rank]:
    """Ranks the methods that take part in all contests, by the mean of their ranks.

    Within a contest, methods are compared on the seeds that all of them have. Seeds are drawn again
    with replacement, the same ones for all methods.

    Args:
        contests: For each contest and method, a value by seed; larger is better.

    Returns:
        The rank of each method, the best first; empty if no method takes part in all.

    >>> for name, rank in ranks([{"a": {0: 1.0, 1: 2.0}, "b": {0: 3.0, 1: 5.0}}]).items():
    ...     print(name, rank)
    b 1 [1, 1]
    a 2 [2, 2]
    """
    everywhere = [set(contest) for contest in contests]
    methods = sorted(set.intersection(*everywhere)) if everywhere else []
    if not methods:
        return {}
    found, drawn, sure = [], [], True
    for number, contest in enumerate(contests):
        seeds = sorted(set.intersection(*(set(contest[m]) for m in methods)))
        if not seeds:
            return {}
        values = np.array([[contest[m][seed] for seed in seeds] for m in methods])
        found.append(_places(values.mean(axis=1, keepdims=True)))
        again = numpy_generator(0, "ranks", number).integers(
            len(seeds), size=(RESAMPLES, len(seeds))
        )
        drawn.append(_places(values[:, again].mean(axis=2)))
        sure = sure and len(seeds) >= FEWEST
    mean, resampled = np.mean(found, axis=0)[:, 0], np.mean(drawn, axis=0)
    ends = np.quantile(resampled, [0.025, 0.975], axis=1)
    told = {
        m: Rank(float(mean[n]), *((float(ends[0, n]), float(ends[1, n])) if sure else ()))
        for n, m in enumerate(methods)
    }
    return dict(sorted(told.items(), key=lambda item: item[1].mean))


def _places(values: np.ndarray) -> np.ndarray:
    """Computes the place of each value in its column, from 1 for the largest; ties share one.

    Args:
        values: The values (methods, resamples).

    Returns:
        The places (methods, resamples).
    """
    above = (values[None] > values[:, None]).sum(axis=1)
    level = (values[None] == values[:, None]).sum(axis=1)
    places: np.ndarray = above + (level + 1) / 2
    return places
