"""The page of an evaluation: one HTML file with tables and pictures, which loads nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ofcl.bundle.description import Description
from ofcl.inference.measures import Evaluation, area, error_at
from ofcl.report import figures
from ofcl.report.confusions import ConfusionMatrix, numbers_of_classes, part_of_matrix
from ofcl.report.drawn import Drawn, Numbers, numbers_of_curves
from ofcl.report.formats import number
from ofcl.report.page import render
from ofcl.report.series import Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COVERAGES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)
"""The shares of the samples for which errors are listed."""


def percent(share: float | None, digits: int = 1) -> str:
    """Writes a share in percent; None as a dash.

    Args:
        share: The share, from 0 to 1.
        digits: The digits after the point.
    """
    return number(None if share is None else 100 * share, digits)


def risk_curves(evaluation: Evaluation) -> list[Curve]:
    """Makes the curves of wrong answers against answered samples, both in percent.

    Args:
        evaluation: The figures of a model.
    """
    return [
        Curve(f"by {by}", [100 * c for c in curve.coverage], [100 * e for e in curve.errors])
        for by, curve in evaluation.risk.items()
    ]


def risk_figure(evaluation: Evaluation) -> Figure:
    """Draws the share of wrong answers against the share of samples that are answered.

    Args:
        evaluation: The figures of a model.
    """
    curves = risk_curves(evaluation)
    return figures.lines(curves, x="answered, % of the samples", y="wrong, % of the answers",
                         marked=False)  # fmt: skip


def risk_numbers(evaluation: Evaluation) -> Numbers:
    """Makes a table of wrong answers, in percent, by the share of samples that are answered.

    Args:
        evaluation: The figures of a model.
    """
    rows = [
        [f"{share:.0%}", *(percent(error_at(curve, share)) for curve in evaluation.risk.values())]
        for share in COVERAGES
    ]
    rows.append(["mean", *(percent(area(curve)) for curve in evaluation.risk.values())])
    return Numbers(["answered", *(f"by {by}" for by in evaluation.risk)], rows)


def summary_rows(evaluation: Evaluation) -> list[list[str]]:
    """Lists the figures of a model with their values.

    Args:
        evaluation: The figures.
    """
    rows = [
        ["samples", str(evaluation.samples)],
        ["accuracy, %", number(evaluation.accuracy, 2)],
        ["balanced accuracy, %", number(evaluation.balanced_accuracy, 2)],
    ]
    if evaluation.tasks:
        rows.append(["mean over tasks, %", number(evaluation.mean_of_tasks, 2)])
    return [*rows, ["calibration error (ECE), %", percent(evaluation.ece, 2)]]


def summary_notes(evaluation: Evaluation) -> list[str]:
    """Lists what a reader of the figures should know: samples that are in none of them.

    Args:
        evaluation: The figures.
    """
    notes = []
    if evaluation.unknown:
        names = ", ".join(f"'{label}' ({n})" for label, n in list(evaluation.unknown.items())[:10])
        more = len(evaluation.unknown) - 10
        count = sum(evaluation.unknown.values())
        tail = f" and {more} more" if more > 0 else ""
        notes.append(f"{count} samples have labels that the model does not know, and are in no "
                     f"figure: {names}{tail}")  # fmt: skip
    if evaluation.left_out:
        notes.append(f"{evaluation.left_out} samples could not be read and were left out")
    return notes


def confusion_matrix(evaluation: Evaluation) -> ConfusionMatrix:
    """Makes the confusion matrix of the classes that occur.

    Args:
        evaluation: The figures of a model.
    """
    found = sorted({c for cell in evaluation.confusions for c in cell[:2]})
    place = {c: n for n, c in enumerate(found)}
    counts = np.zeros((len(found), len(found)), dtype=int)
    for true, predicted, samples in evaluation.confusions:
        counts[place[true], place[predicted]] += samples
    return ConfusionMatrix([evaluation.labels[c] for c in found], counts, [])


def page(evaluation: Evaluation, description: Description) -> str:
    """Makes the page of an evaluation, as HTML.

    Args:
        evaluation: The figures.
        description: The model that was evaluated.
    """
    risk = Drawn(
        "risk",
        "Wrong answers if only so many samples are answered, those about which the model is surest",
        risk_figure(evaluation),
        numbers_of_curves("answered, %", risk_curves(evaluation)),
    )
    calibrated, matrix = _calibration(evaluation), confusion_matrix(evaluation)
    confused = part_of_matrix(matrix, f"the model on {evaluation.data}")
    drawn = [risk, calibrated, confused.drawn]
    learned = description.learned
    return render(
        "evaluation.html",
        {id(some): some.name for some in drawn},
        "",
        title=f"Evaluation of a model of {learned.data}",
        about=f"{description.network.name}, learned by {learned.clients} clients in "
        f"{learned.rounds} rounds; evaluated on {evaluation.data}.",
        notes=summary_notes(evaluation),
        figures=summary_rows(evaluation),
        tasks=_tasks(evaluation),
        risk=[risk],
        shares=risk_numbers(evaluation),
        calibration=[calibrated],
        calibration_words=_calibration_words(evaluation),
        confused=confused,
        classes=numbers_of_classes(matrix),
    )


def _tasks(evaluation: Evaluation) -> Numbers:
    """Makes a table of the accuracy on each task."""
    rows = [[str(n), number(value, 2)] for n, value in enumerate(evaluation.tasks, 1)]
    return Numbers(["task", "accuracy"], rows)


def _calibration(evaluation: Evaluation) -> Drawn:
    """Draws the reliability diagram."""
    filled = [b for b in evaluation.bins if b.samples]
    curves = [
        Curve("the model", [100 * (b.probability or 0) for b in filled],
              [100 * (b.accuracy or 0) for b in filled]),
        Curve("as it should be", [0.0, 100.0], [0.0, 100.0]),
    ]  # fmt: skip
    rows = [
        [f"{b.low:.0%} to {b.high:.0%}", str(b.samples), percent(b.probability),
         percent(b.accuracy)]
        for b in evaluation.bins
    ]  # fmt: skip
    return Drawn(
        "calibration",
        "Right answers by the probability that the model gives to its answer, in 15 bins",
        figures.lines(curves, x="probability, %", y="right answers, %", top=100),
        Numbers(["probability", "samples", "mean probability, %", "right, %"], rows),
    )


def _calibration_words(evaluation: Evaluation) -> str:
    """Says in words whether the model is too sure of itself."""
    counted = [(b.samples, b.probability, b.accuracy) for b in evaluation.bins if b.samples]
    over = sum(n * ((p or 0) - (a or 0)) for n, p, a in counted) / max(evaluation.samples, 1)
    how = "too sure of itself" if over > 0 else "not sure enough"
    return (
        f"On average, probabilities are {percent(evaluation.ece)} points away from the share of "
        f"right answers. All in all the model is {how}, by {percent(abs(over))} points."
    )
