"""The confusion matrix of a run's final global model, on the test samples of all clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ofcl.report.drawn import Drawn, Numbers
from ofcl.report.formats import number
from ofcl.report.heat_maps import Box, confusion_map
from ofcl.report.recorded_runs import RunView
from ofcl.report.series import PlainEvent

MOST_FREQUENT = 10  # confusions in the table


@dataclass(frozen=True)
class ConfusionMatrix:
    """The predictions for the test samples of each class.

    Args:
        labels: The label of each class.
        counts: Samples; a row for each true class, a column for each predicted one.
        tasks: The task of each class, from 0, if it is the same for all clients and classes are in
            the order of their tasks; else empty.
    """

    labels: list[str]
    counts: np.ndarray
    tasks: list[int]

    def shares(self) -> np.ndarray:
        """Returns the counts as shares of each row's sum; a row without samples stays 0."""
        shares: np.ndarray = self.counts / self.counts.sum(axis=1, keepdims=True).clip(1)
        return shares

    def wrong(self) -> list[tuple[int, int]]:
        """Lists the (row, column) of all wrong predictions that occurred, most samples first."""
        beside = self.counts * (1 - np.eye(len(self.labels), dtype=int))
        rows, columns = np.nonzero(beside)
        order = np.argsort(-beside[rows, columns], kind="stable")
        return list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))


@dataclass(frozen=True)
class ConfusionPart:
    """The confusion matrix as the page shows it.

    Args:
        drawn: The heat map, and the accuracy of each class in numbers.
        box: Where the cells are in the heat map.
        labels: The label of each row and column.
        cells: A list (row, column, samples) for each cell that has samples.
        most: The most frequent confusions as a table.
    """

    drawn: Drawn
    box: Box
    labels: list[str]
    cells: list[list[int]]
    most: Numbers


def read_confusions(view: RunView) -> ConfusionMatrix | None:
    """Adds up the confusions that the clients of a run have counted.

    Args:
        view: The run.

    Returns:
        The matrix; None if nothing was counted, or the global model has learned nothing.
    """
    evaluated = [event for event in view.events_of("evaluated") if event.get("confusions")]
    if not evaluated or view.result.global_A is None:
        return None
    cells = [cell for event in evaluated for cell in event["confusions"]]
    classes, tasks = _in_order(sorted({c for cell in cells for c in cell[:2]}), evaluated)
    place = {c: n for n, c in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    for true, predicted, samples in cells:
        counts[place[true], place[predicted]] += samples
    labels = [view.labels[c] if c < len(view.labels) else f"class {c}" for c in classes]
    return ConfusionMatrix(labels, counts, tasks)


def _in_order(classes: list[int], evaluated: Sequence[PlainEvent]) -> tuple[list[int], list[int]]:
    """Orders classes by their task, if each class has one task that is the same for all clients.

    Args:
        classes: The classes to order.
        evaluated: The events `evaluated` of the run, with the classes of each task.

    Returns:
        The classes in order, and the task of each; or the classes as given and an empty list.
    """
    task_of: dict[int, int] = {}
    for event in evaluated:
        for task, counts in enumerate(event["test"]):
            for c, _, _ in counts:
                if task_of.setdefault(c, task) != task:
                    return classes, []
    if not all(c in task_of for c in classes):  # predicted, and nobody has test samples of it
        return classes, []
    ordered = sorted(classes, key=lambda c: (task_of[c], c))
    return ordered, [task_of[c] for c in ordered]


def confusion_part(view: RunView) -> ConfusionPart | None:
    """Draws the confusion matrix of a run.

    Args:
        view: The run.

    Returns:
        The heat map and the tables; None if there is no matrix.
    """
    matrix = read_confusions(view)
    if matrix is None:
        return None
    of = "the server's model at the end, on the test samples of all clients"
    return part_of_matrix(matrix, of)


def part_of_matrix(matrix: ConfusionMatrix, of: str) -> ConfusionPart:
    """Draws a confusion matrix.

    Args:
        matrix: The matrix.
        of: The model and its samples, for the caption.
    """
    figure, box = confusion_map(matrix.shares(), matrix.labels, matrix.tasks)
    rows, columns = np.nonzero(matrix.counts)
    samples = matrix.counts[rows, columns]
    caption = (
        f"Predictions of {of}: a row for each class, a column for each prediction; the fuller the "
        "colour, the larger its share of the row"
    )
    return ConfusionPart(
        drawn=Drawn("confusions", caption, figure, numbers_of_classes(matrix)),
        box=box,
        labels=matrix.labels,
        cells=np.stack([rows, columns, samples], axis=1).tolist(),
        most=_most_frequent(matrix),
    )


def _most_frequent(matrix: ConfusionMatrix) -> Numbers:
    """Makes a table of the most frequent wrong predictions."""
    totals = matrix.counts.sum(axis=1)
    rows = []
    for true, predicted in matrix.wrong()[:MOST_FREQUENT]:
        samples = matrix.counts[true, predicted]
        names = [matrix.labels[true], matrix.labels[predicted]]
        rows.append([*names, str(samples), number(100 * samples / totals[true])])
    return Numbers(["class", "taken for", "samples", "% of the class"], rows)


def numbers_of_classes(matrix: ConfusionMatrix) -> Numbers:
    """Makes a table of the accuracy of each class, and of its most frequent confusion.

    Args:
        matrix: The matrix.
    """
    most: dict[int, int] = {}
    for true, predicted in matrix.wrong():
        most.setdefault(true, predicted)
    rows = []
    for n, (label, row) in enumerate(zip(matrix.labels, matrix.counts, strict=True)):
        total = int(row.sum())
        right = number(100 * row[n] / total if total else None)
        wrong = f"{matrix.labels[most[n]]} ({row[most[n]]})" if n in most else "–"
        rows.append([label, str(total), right, wrong])
    return Numbers(["class", "samples", "right, %", "most often taken for"], rows)
