"""A figure together with its caption and its numbers, for readers who cannot see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ofcl.report.formats import number
from ofcl.report.series import Composition, Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Numbers(NamedTuple):
    """The numbers of a figure as a table: the names of its columns, and its rows of cells."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Drawn:
    """A figure with a name, a caption, and its numbers as a table."""

    name: str
    caption: str
    figure: Figure
    numbers: Numbers


def numbers_of_curves(x: str, curves: Sequence[Curve]) -> Numbers:
    """Makes a table of curves: a row for each place on the x axis, a column for each curve.

    Args:
        x: The name of the x axis.
        curves: The curves.
    """
    values = [dict(zip(curve.x, curve.y, strict=True)) for curve in curves]
    places = sorted({place for of_curve in values for place in of_curve})
    rows = [[f"{p:g}", *(number(v.get(p)) for v in values)] for p in places]
    return Numbers([x, *(curve.name for curve in curves)], rows)


def numbers_of_composition(composition: Composition, names: Mapping[int, str]) -> Numbers:
    """Makes a table of the samples in memories: a row for each time, a column for each kind.

    Args:
        composition: The number of samples of each kind (task or class) over time.
        names: The name of each kind.
    """
    counts = zip(*composition.counts.values(), strict=True)
    rows = [
        [str(batches), *(f"{n:g}" for n in row)]
        for batches, row in zip(composition.batches, counts, strict=True)
    ]
    return Numbers(["mini-batches", *(names[kind] for kind in composition.counts)], rows)


def numbers_of_values(values: Mapping[str, Sequence[float]]) -> Numbers:
    """Makes a table of a histogram: a row for each name, with the number of values and quantiles.

    Args:
        values: The values by name; a name without values gets no row.
    """
    quantiles = (0.1, 0.5, 0.9)
    rows = [[name, str(len(some)), *(f"{q:.3g}" for q in np.quantile(some, quantiles))]
            for name, some in values.items() if len(some)]  # fmt: skip
    return Numbers(["samples", "number", "10 % are below", "median", "90 % are below"], rows)
