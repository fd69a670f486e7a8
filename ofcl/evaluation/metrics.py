"""Accuracy, forgetting and what else is measured; from counts that add up in any order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ofcl.events import Hits

Row = list[float | None]
"""Accuracy of one model on each task, in percent; None where there was nothing to measure."""


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is there; None when nothing is.

    >>> mean([1.0, None, 3.0])
    2.0
    """
    there = [value for value in values if value is not None]
    return math.fsum(there) / len(there) if there else None


def accuracies(hits: Hits, tasks: int) -> Row:
    """The accuracy on each of the tasks; None for those not reached.

    >>> accuracies([[[0, 3, 4], [1, 0, 1]]], tasks=2)
    [60.0, None]
    """
    row: Row = [None] * tasks
    for task, classes in enumerate(hits):
        total = sum(n for _, _, n in classes)
        if total:
            row[task] = 100 * sum(right for _, right, _ in classes) / total
    return row


def balanced_accuracy(hits: Hits) -> float | None:
    """The mean over classes of the share of its samples that were recognised, in percent.

    >>> balanced_accuracy([[[0, 3, 4], [1, 0, 1]]])
    37.5
    """
    return mean(100 * right / n for classes in hits for _, right, n in classes if n)


def merge(hits: Sequence[Hits]) -> Hits:
    """Counts of several clients in one.

    >>> merge([[[[0, 1, 2]]], [[[0, 2, 2]], [[1, 0, 1]]]])
    [[[0, 3, 4]], [[1, 0, 1]]]
    """
    merged: list[dict[int, list[int]]] = [{} for _ in range(max(map(len, hits), default=0))]
    for part in hits:
        for task, classes in enumerate(part):
            for c, right, n in classes:
                sums = merged[task].setdefault(c, [c, 0, 0])
                sums[1] += right
                sums[2] += n
    return [sorted(classes.values()) for classes in merged]


def to_its_end(matrix: Sequence[Row]) -> list[Row]:
    """The matrix of a client up to the last task that it has been tested after.

    >>> to_its_end([[90.0, None, None], [40.0, 80.0, None], [None, None, None]])
    [[90.0, None], [40.0, 80.0]]
    """
    reached = [n for n, row in enumerate(matrix) if any(value is not None for value in row)]
    end = max(reached, default=-1) + 1
    return [list(row[:end]) for row in matrix[:end]]


def falls(matrix: Sequence[Row]) -> Row:
    """How far each task but the last has fallen from its best.

    >>> falls([[90.0, None], [40.0, 80.0]])
    [50.0]
    """
    found: Row = []
    for task in range(len(matrix) - 1):
        before = [row[task] for row in matrix[:-1]]
        best = max((value for value in before if value is not None), default=None)
        last = matrix[-1][task]
        found.append(None if best is None or last is None else best - last)
    return found


def last_accuracy(matrix: Sequence[Row]) -> float | None:
    """A of one client: the mean over tasks of the accuracy after the last one.

    >>> last_accuracy([[90.0, None], [40.0, 80.0]])
    60.0
    """
    return mean(matrix[-1]) if matrix else None


def forgetting(matrix: Sequence[Row]) -> float | None:
    """F of one client: how far each task but the last has fallen from its best, on average.

    >>> forgetting([[90.0, None], [40.0, 80.0]])
    50.0
    """
    return mean(falls(matrix))
