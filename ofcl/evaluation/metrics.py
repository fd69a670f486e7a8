"""Accuracy, forgetting and other metrics, from counts that add up in any order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ofcl.events import Hits

Row = list[float | None]
"""Accuracy of one model on each task, in percent; None where there was nothing to measure."""


def mean(values: Iterable[float | None]) -> float | None:
    """Averages the values that are not None; returns None if there is no such value.

    >>> mean([1.0, None, 3.0])
    2.0

    Args:
        values: The values.
    """
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def accuracies(hits: Hits, tasks: int) -> Row:
    """Computes the accuracy on each task, in percent; None for tasks that were not tested.

    >>> accuracies([[[0, 3, 4], [1, 0, 1]]], tasks=2)
    [60.0, None]

    Args:
        hits: For each tested task, `[class, right predictions, samples]` of each class.
        tasks: The number of all tasks.
    """
    row: Row = [None] * tasks
    for task, classes in enumerate(hits):
        total = sum(n for _, _, n in classes)
        if total:
            row[task] = 100 * sum(right for _, right, _ in classes) / total
    return row


def balanced_accuracy(hits: Hits) -> float | None:
    """Averages the accuracy on each class over all classes, in percent.

    >>> balanced_accuracy([[[0, 3, 4], [1, 0, 1]]])
    37.5

    Args:
        hits: For each tested task, `[class, right predictions, samples]` of each class.

    Returns:
        The average; None if there are no samples.
    """
    return mean(100 * right / n for classes in hits for _, right, n in classes if n)


def merge(hits: Sequence[Hits]) -> Hits:
    """Adds up the counts of several clients, task by task and class by class.

    >>> merge([[[[0, 1, 2]]], [[[0, 2, 2]], [[1, 0, 1]]]])
    [[[0, 3, 4]], [[1, 0, 1]]]

    Args:
        hits: For each client and task, `[class, right predictions, samples]` of each class.

    Returns:
        The sums in the same form: for each task, `[class, right predictions, samples]`.
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
    """Returns the rows of a client's matrix up to its last test; [] if it was never tested.

    >>> to_its_end([[90.0, None, None], [40.0, 80.0, None], [None, None, None]])
    [[90.0, None, None], [40.0, 80.0, None]]

    Args:
        matrix: The client's accuracies: row i has those after task i, column j those on task j.
    """
    reached = [n for n, row in enumerate(matrix) if any(value is not None for value in row)]
    return [list(row) for row in matrix[: max(reached, default=-1) + 1]]


def falls(matrix: Sequence[Row]) -> Row:
    """Computes how far the accuracy on each task but the last has fallen from its best.

    >>> falls([[90.0, None], [40.0, 80.0]])
    [50.0]

    Args:
        matrix: The client's accuracies: row i has those after task i, column j those on task j.

    Returns:
        For each task but the last, its best accuracy before the last row minus its accuracy in the
        last row; None if one of the two was not measured.
    """
    fallen: Row = []
    for task in range(len(matrix) - 1):
        before = [row[task] for row in matrix[:-1]]
        best = max((value for value in before if value is not None), default=None)
        last = matrix[-1][task]
        fallen.append(None if best is None or last is None else best - last)
    return fallen


def last_accuracy(matrix: Sequence[Row]) -> float | None:
    """Computes A of one client: the mean over all tasks of the accuracy after the last task.

    >>> last_accuracy([[90.0, None], [40.0, 80.0]])
    60.0

    Args:
        matrix: The client's accuracies: row i has those after task i, column j those on task j.

    Returns:
        The mean; None if nothing was measured.
    """
    return mean(matrix[-1]) if matrix else None


def forgetting(matrix: Sequence[Row]) -> float | None:
    """Computes F of one client: the mean fall of the accuracy on each task from its best.

    >>> forgetting([[90.0, None], [40.0, 80.0]])
    50.0

    Args:
        matrix: The client's accuracies: row i has those after task i, column j those on task j.

    Returns:
        The mean over all tasks but the last; None if nothing was measured.
    """
    return mean(falls(matrix))
