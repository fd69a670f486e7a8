"""Answers to samples, lot by lot (`input_rows.Lot`): label, probability, uncertainty.

A model may abstain: it gives no label where it is too unsure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ofcl.bundle.abstention import risk_curve, threshold_for
from ofcl.bundle.description import Curve
from ofcl.bundle.given_samples import UnusableSample, decode
from ofcl.bundle.trained_model import Answers, TrainedModel
from ofcl.data.options import Damage
from ofcl.errors import OfclError
from ofcl.inference.input_rows import Lot

BY = ("probability", "uncertainty")
"""By which a model may abstain."""


@dataclass(frozen=True)
class Abstention:
    """The rule by which a model gives no label, and how often it then errs on validation data.

    Args:
        by: What tells how unsure the model is: `probability` or `uncertainty`.
        threshold: The largest unsureness (`unsureness`) at which a sample still gets a label.
        coverage: The share of the validation samples that get a label.
        error: The share of these labels that is wrong.
        samples: The number of validation samples.
    """

    by: str
    threshold: float
    coverage: float
    error: float
    samples: int

    def words(self) -> str:
        """Says in a line what is answered, and how often that is wrong."""
        rule = (
            f"a probability of at least {1 - self.threshold:.3f}"
            if self.by == "probability"
            else f"an uncertainty of at most {self.threshold:.3g}"
        )
        return (
            f"answered is what has {rule}: of {self.samples} validation samples {self.coverage:.1%}"
            f", and {self.error:.1%} of these answers are wrong"
        )


@dataclass(frozen=True)
class Asked:
    """The columns of the answers that the user asks for.

    Args:
        measure: Whether uncertainty is measured.
        top: How many of the likeliest labels are listed besides; 0: none.
        abstention: Where no label is given; None: every sample gets one.
        keep: Columns of the input that are copied.
    """

    measure: bool = True
    top: int = 0
    abstention: Abstention | None = None
    keep: tuple[str, ...] = ()

    def columns(self) -> list[str]:
        """Lists the names of the columns of the answers.

        Raises:
            OfclError: If a column that is copied has the name of another.
        """
        listed = [
            f"{what}_{n}" for n in range(1, self.top + 1) for what in ("label", "probability")
        ]
        own = ["input", "label", "probability", "uncertainty", *listed]
        if taken := sorted({*self.keep} & {*own}):
            raise OfclError(f"--keep {taken[0]}: the answers have a column of that name already")
        return [own[0], *self.keep, *own[1:]]


class Ready(NamedTuple):
    """A lot's usable samples, and the same as the network's inputs; None: there are none."""

    lot: Lot
    tensor: Tensor | None


def choose_abstention(curve: Curve | None, by: str, error: float) -> Abstention:
    """Chooses where a model had better not answer, for an error that somebody allows.

    Args:
        curve: Errors against coverage on validation data; None: there were none.
        by: `probability` or `uncertainty`.
        error: The share of wrong answers that is allowed, between 0 and 1.

    Raises:
        OfclError: If there are no validation data, or the error cannot be reached.
    """
    if curve is None or not curve.samples:
        raise OfclError(
            "this model brings no errors on validation data, from which it could be seen where it "
            "had better not answer; give labelled samples with --calibrate"
        )
    threshold = threshold_for(curve, error)
    place = curve.thresholds.index(threshold)
    return Abstention(by, threshold, curve.coverage[place], curve.errors[place], curve.samples)


def unsureness(answers: Answers, by: str) -> np.ndarray:
    """Returns how unsure a model is about each sample (n,): larger if it is less sure.

    Args:
        answers: The model's answers.
        by: `probability` or `uncertainty`.
    """
    if by == "uncertainty":
        return answers.uncertainty
    return np.asarray(1 - answers.probabilities.max(axis=1))


def curve_of(answers: Answers, classes: np.ndarray, by: str) -> Curve:
    """Computes the error among the samples about which a model is surest, for every share of them.

    Args:
        answers: The model's answers.
        classes: The right class of each sample (n,).
        by: `probability` or `uncertainty`.
    """
    return risk_curve(unsureness(answers, by), answers.classes == classes)


def prepare_lots(model: TrainedModel, lots: Iterable[Lot], damage: Damage) -> Iterator[Ready]:
    """Decodes lots one after the other; the next is decoded while the caller works on this one.

    Args:
        model: The model that will answer them.
        lots: Samples that are not decoded yet.
        damage: Collects the samples that cannot be decoded; they are left out.

    Yields:
        Each lot without the samples that are left out, and the network's inputs.
    """
    remaining = iter(lots)

    def following() -> Ready | None:
        """Reads and decodes the next lot; None: there is none."""
        lot = next(remaining, None)
        return None if lot is None else _ready(model, lot, damage)

    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(following)
        while (ready := coming.result()) is not None:
            coming = ahead.submit(following)
            yield ready


def answer_rows(model: TrainedModel, ready: Ready, asked: Asked) -> tuple[Answers, list[list[Any]]]:
    """Answers a lot.

    Args:
        model: The model.
        ready: The lot and the network's inputs.
        asked: The columns that are asked for.

    Returns:
        The answers, and a row of values for each sample, in the order of `Asked.columns`.
    """
    lot, tensor = ready
    if tensor is None:
        return Answers(np.empty((0, len(model.labels))), np.empty(0)), []
    answers = model.answer_prepared(tensor, measure=asked.measure)
    given = np.ones(len(lot.inputs), dtype=bool)
    if asked.abstention is not None:
        given = unsureness(answers, asked.abstention.by) <= asked.abstention.threshold
    labels = [
        model.labels[c] if answered else None
        for c, answered in zip(answers.classes.tolist(), given.tolist(), strict=True)
    ]
    columns: list[Sequence[Any]] = [
        lot.inputs,
        *([row.get(name) for row in lot.rows] for name in asked.keep),
    ]
    columns += [labels, _short(answers.probabilities.max(axis=1))]
    columns.append(_short(answers.uncertainty) if asked.measure else [None] * len(labels))
    columns += _likeliest(model.labels, answers.probabilities, asked.top)
    return answers, [list(row) for row in zip(*columns, strict=True)]


def _likeliest(
    labels: Sequence[str], probabilities: np.ndarray, top: int
) -> Iterator[Sequence[Any]]:
    """Yields a column of labels and one of probabilities for each of the likeliest classes."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    for place in range(top):
        if place >= len(labels):
            yield from ([None] * len(probabilities),) * 2
            continue
        classes = order[:, place]
        yield [labels[c] for c in classes.tolist()]
        yield _short(probabilities[np.arange(len(classes)), classes])


def _short(values: np.ndarray) -> list[float]:
    """Rounds numbers of 32 bits to the digits that they have."""
    return [float(f"{value:.7g}") for value in values.tolist()]


def _ready(model: TrainedModel, lot: Lot, damage: Damage) -> Ready:
    """Decodes a lot; if a sample cannot be used, finds out which, and leaves it out."""
    try:
        return Ready(lot, model.prepare(lot.samples))
    except UnusableSample:
        kept = [i for i in range(len(lot.samples)) if _usable(model, lot, i, damage)]
    rows = [lot.rows[i] for i in kept] if lot.rows else ()
    samples = [lot.samples[i] for i in kept]
    left = Lot([lot.inputs[i] for i in kept], samples, [lot.where[i] for i in kept], rows)
    return Ready(left, model.prepare(samples) if samples else None)


def _usable(model: TrainedModel, lot: Lot, place: int, damage: Damage) -> bool:
    """Says whether a sample of a lot can be decoded; if not, reports why."""
    try:
        decode([lot.samples[place]], model.description.samples, model.resizes)
    except UnusableSample as error:
        named = error.names_itself or not lot.where[place]
        damage.report(error.problem if named else f"{lot.where[place]}: {error.problem}")
        return False
    return True
