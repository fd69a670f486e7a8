"""Means and standard deviations, over seeds or over clients."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ofcl.evaluation import metrics


@dataclass(frozen=True)
class Spread:
    """A mean and its standard deviation, as text `mean ± std`.

    Args:
        mean: The mean; None if there are no values.
        std: The standard deviation; None if there are too few values.
    """

    mean: float | None
    std: float | None

    def __str__(self) -> str:
        if self.mean is None:
            return "–"
        return f"{self.mean:.2f}" + (f" ± {self.std:.2f}" if self.std is not None else "")


def over_seeds(values: Sequence[float | None]) -> Spread:
    """Takes the mean and the standard deviation over seeds.

    Args:
        values: A value for each seed; None is left out.

    >>> str(over_seeds([1.0, 2.0, 3.0])), str(over_seeds([1.0]))
    ('2.00 ± 1.00', '1.00')
    """
    known = [value for value in values if value is not None]
    return Spread(metrics.mean(known), statistics.stdev(known) if len(known) > 1 else None)


def over_clients(values: Sequence[Sequence[float | None]]) -> Spread:
    """Takes the mean of all values, and the standard deviation over clients.

    Each client's values are averaged over the runs first. This is the ± of the paper's released
    code.

    Args:
        values: For each run, a value for each client.

    >>> str(over_clients([[1.0, 3.0], [3.0, 5.0]]))  # runs × clients
    '3.00 ± 1.00'
    """
    means = [metrics.mean(client) for client in zip(*values, strict=True)]
    known = [value for value in means if value is not None]
    return Spread(metrics.mean(known), statistics.pstdev(known) if known else None)
