"""Measures of a model on labelled samples: accuracy, calibration, risk against coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ofcl.bundle.description import Curve
from ofcl.bundle.trained_model import Answers
from ofcl.evaluation import metrics
from ofcl.evaluation.held_out import Predictions, count_confusions, count_hits
from ofcl.events import Confusions, Hits
from ofcl.inference.answering import curve_of

BINS = 15


class ClassFigures(NamedTuple):
    """How well a model does on the samples of one class."""

    label: str
    samples: int
    right: int

    @property
    def accuracy(self) -> float:
        """The share of right answers, in percent."""
        return 100 * self.right / self.samples


class Bin(NamedTuple):
    """The samples whose likeliest class has a probability in a range.

    Args:
        low: The lower end, which is not in it, but for 0.
        high: The upper end, which is in it.
        samples: The number of samples.
        probability: Their mean probability, from 0 to 1; None: there are none.
        accuracy: The share of right answers, from 0 to 1; None: there are none.
    """

    low: float
    high: float
    samples: int
    probability: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Evaluation:
    """A model's figures on labelled samples; accuracies are in percent.

    Args:
        data: The name of the data.
        samples: The number of samples whose label the model knows.
        accuracy: The share of right answers.
        balanced_accuracy: The mean of the classes' accuracies.
        tasks: The accuracy on each task, as the run counts it; None: no sample of it; empty: the
            tasks are not known.
        mean_of_tasks: The mean of these, which the run calls `global_A`.
        classes: The figures of each class that has samples, in the order of the model's labels.
        confusions: `[class, predicted class, samples]` of each pair of classes that occurs.
        ece: The expected calibration error, from 0 to 1: how far probabilities are from accuracies.
        bins: Probabilities and accuracies in 15 bins of equal width.
        risk: Errors against coverage, by `probability` and, if it was measured, `uncertainty`.
        unknown: The number of samples of each label that the model does not know; they are in no
            other figure.
        left_out: The number of samples that could not be read.
        labels: The model's labels.
    """

    data: str
    samples: int
    accuracy: float | None
    balanced_accuracy: float | None
    tasks: list[float | None]
    mean_of_tasks: float | None
    classes: list[ClassFigures]
    confusions: Confusions
    ece: float | None
    bins: list[Bin]
    risk: dict[str, Curve]
    unknown: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    labels: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as plain values."""
        values = asdict(self)
        values["classes"] = [{**c._asdict(), "accuracy": c.accuracy} for c in self.classes]
        values["bins"] = [b._asdict() for b in self.bins]
        return values


def evaluate(
    data: str,
    labels: tuple[str, ...],
    answers: Answers,
    classes: np.ndarray,
    hits: Hits,
    *,
    unknown: dict[str, int],
    left_out: int = 0,
) -> Evaluation:
    """Computes all figures of a model.

    Args:
        data: The name of the data.
        labels: The model's labels.
        answers: The model's answers to the samples.
        classes: The right class of each sample (n,).
        hits: The right answers for each task and class, added up over clients; empty: the tasks are
            not known.
        unknown: The number of samples of each label that the model does not know.
        left_out: The number of samples that could not be read.
    """
    predictions = [Predictions(classes, answers.classes)]
    counted = count_hits(predictions)
    by_class = [ClassFigures(labels[c], n, right) for c, right, n in counted[0]]
    measured = ("probability", "uncertainty") if len(answers.uncertainty) else ("probability",)
    tasks = metrics.accuracies(hits, len(hits))
    (accuracy,) = metrics.accuracies(counted, 1)
    error, bins = calibration(answers.probabilities, classes)
    return Evaluation(
        data=data,
        samples=len(classes),
        accuracy=accuracy,
        balanced_accuracy=metrics.balanced_accuracy(counted),
        tasks=tasks,
        mean_of_tasks=metrics.mean(tasks),
        classes=by_class,
        confusions=count_confusions(predictions),
        ece=error,
        bins=bins,
        risk={by: curve_of(answers, classes, by) for by in measured} if len(classes) else {},
        unknown=unknown,
        left_out=left_out,
        labels=labels,
    )


def hits_of_tasks(
    classes: np.ndarray, predicted: np.ndarray, rows_of_clients: Sequence[Sequence[np.ndarray]]
) -> Hits:
    """Counts right answers as the server does: client by client and task by task, then added up.

    Args:
        classes: The right class of each sample (n,).
        predicted: The class that the model answers for each sample (n,).
        rows_of_clients: For each client and task, the rows of its samples.
    """
    return metrics.merge(
        [
            count_hits([Predictions(classes[rows], predicted[rows]) for rows in rows_of_tasks])
            for rows_of_tasks in rows_of_clients
        ]
    )


def rows_by_task(classes: np.ndarray, tasks: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Finds the rows of the samples of each task.

    Args:
        classes: The class of each sample (n,).
        tasks: The classes of each task; a class belongs to the first task that has it.
    """
    rows, before = [], set[int]()
    for of_task in tasks:
        rows.append(np.flatnonzero(np.isin(classes, sorted(set(of_task) - before))))
        before |= set(of_task)
    return rows


def calibration(probabilities: np.ndarray, classes: np.ndarray) -> tuple[float | None, list[Bin]]:
    """Computes how far a model's probabilities are from the shares of right answers.

    Args:
        probabilities: The probability of each class (n, classes).
        classes: The right class of each sample (n,).

    Returns:
        The expected calibration error, the mean distance over samples (None without samples), and
        the bins.

    >>> error, bins = calibration(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))
    >>> round(error, 3), bins[13].samples, bins[13].accuracy
    (0.4, 2, 0.5)
    """
    surest = probabilities.max(axis=1, initial=0).astype(np.float64)
    right = probabilities.argmax(axis=1) == classes if len(classes) else np.empty(0, dtype=bool)
    edges = np.linspace(0, 1, BINS + 1)
    place = np.clip(np.searchsorted(edges, surest, side="left") - 1, 0, BINS - 1)
    bins, distance = [], 0.0
    for n in range(BINS):
        here = place == n
        count = int(here.sum())
        probability = float(surest[here].mean()) if count else None
        accuracy = float(right[here].mean()) if count else None
        if probability is not None and accuracy is not None:
            distance += count * abs(probability - accuracy)
        bins.append(Bin(float(edges[n]), float(edges[n + 1]), count, probability, accuracy))
    return (distance / len(classes) if len(classes) else None), bins


def error_at(curve: Curve, coverage: float) -> float | None:
    """Returns the error if only a share of the samples is answered: those the model is surest of.

    Args:
        curve: Errors against coverage.
        coverage: The share that is answered; the nearest smaller point of the curve counts.

    Returns:
        The share of wrong answers; None if the curve has no such point.
    """
    reached = [n for n, share in enumerate(curve.coverage) if share <= coverage + 1e-9]
    return curve.errors[reached[-1]] if reached else None


def area(curve: Curve) -> float:
    """Computes the mean error over all coverages: the smaller, the better unsureness sorts.

    Args:
        curve: Errors against coverage.
    """
    widths = np.diff([0.0, *curve.coverage])
    return float((widths * np.array(curve.errors)).sum())
