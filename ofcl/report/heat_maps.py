"""Heat maps of confusion matrices, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ofcl.report.figures import COLOURS, INK, any_letters, panels
from ofcl.report.formats import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDES = (5.6, 5.0)  # inches
NAMED_AT_MOST = 30  # classes whose labels stand at the axes
BRIGHTEN = 0.5  # exponent of the colour scale: a share of 4 % gets a fifth of the full colour


class Box(NamedTuple):
    """The place of the cells in a figure, as shares of its width and height from the top left."""

    left: float
    top: float
    width: float
    height: float


def confusion_map(
    shares: np.ndarray, labels: Sequence[str], tasks: Sequence[int]
) -> tuple[Figure, Box]:
    """Draws a confusion matrix.

    Args:
        shares: The share of each class (row) that is taken for each class (column), from 0 to 1.
        labels: The label of each class.
        tasks: The task of each class, if classes are in the order of their tasks; else empty.

    Returns:
        The figure, and where its cells are.
    """
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm, to_rgba

    figure, (axes,) = panels(1)
    figure.set_size_inches(*SIDES)
    # From transparent, so that it fits a light and a dark page.
    colours = [(*to_rgba(COLOURS[0])[:3], 0.0), to_rgba(COLOURS[0])]
    scale = LinearSegmentedColormap.from_list("share", colours)
    norm = PowerNorm(BRIGHTEN, vmin=0, vmax=1)
    drawn = axes.imshow(shares, cmap=scale, norm=norm, interpolation="none")
    bar = figure.colorbar(drawn, ax=axes, shrink=0.6, ticks=[0, 0.05, 0.25, 0.5, 1])
    bar.ax.set_yticklabels(["0", "5", "25", "50", "100"], fontsize=7)
    bar.set_label("% of the class", fontsize=8)
    axes.set_xlabel("taken for", fontsize=8)
    axes.set_ylabel("class", fontsize=8)
    _name(axes, labels, tasks)
    with any_letters():
        figure.draw_without_rendering()  # lays it out, so that the place of the cells is known
    at = axes.get_position()
    return figure, Box(at.x0, 1 - at.y1, at.width, at.height)


def _name(axes: Axes, labels: Sequence[str], tasks: Sequence[int]) -> None:
    """Writes the labels at both axes, and draws lines between tasks.

    With many classes, the tasks are written instead of the labels; nothing, if there are no tasks.

    Args:
        axes: The panel with the matrix.
        labels: The label of each class.
        tasks: The task of each class, if classes are in the order of their tasks; else empty.
    """
    starts = [n for n in range(1, len(tasks)) if tasks[n] != tasks[n - 1]]
    for start in starts:
        for line in (axes.axhline, axes.axvline):
            line(start - 0.5, color=INK, linewidth=0.4, alpha=0.5)
    if len(labels) <= NAMED_AT_MOST:
        places, names = list(range(len(labels))), [short(label) for label in labels]
    elif tasks:
        edges = [0, *starts, len(labels)]
        places = [(a + b - 1) // 2 for a, b in pairwise(edges)]
        names = [f"task {tasks[start] + 1}" for start in edges[:-1]]
    else:
        places, names = [], []
    size = 7 if len(names) <= NAMED_AT_MOST // 2 else 5
    axes.set_xticks(places, names, fontsize=size, rotation=90)
    axes.set_yticks(places, names, fontsize=size)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)  # a class may be called $
