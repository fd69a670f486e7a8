"""Points in a plane, for example cost against accuracy: drawn, and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ofcl.report import figures
from ofcl.report.drawn import Numbers
from ofcl.report.formats import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Point:
    """A point in a plane.

    Args:
        x: Its place on the x axis.
        y: Its place on the y axis.
        name: A name that is written beside it; empty: none.
    """

    x: float
    y: float
    name: str = ""


def points(
    groups: Mapping[str, Sequence[Point]],
    *,
    x: str,
    y: str,
    log: bool = False,
    curve: Sequence[Point] = (),
) -> Figure:
    """Draws points, a colour and a marker for each group.

    Args:
        groups: The points by the name of their group; a group without points is left out.
        x: The name of the x axis.
        y: The name of the y axis.
        log: Whether the x axis is logarithmic.
        curve: Points that are joined by a line, without markers.
    """
    figure, axes = figures.blank()
    legend = []
    filled = {name: some for name, some in groups.items() if some}
    for (name, some), style in zip(filled.items(), figures.styles(len(filled)), strict=True):
        colour, marker = style
        drawn = axes.scatter([p.x for p in some], [p.y for p in some], s=18, color=colour,
                             marker=marker)  # fmt: skip
        legend.append((name, drawn))
        for point in some:
            axes.annotate(short(point.name), (point.x, point.y), xytext=(3, 3),
                          textcoords="offset points", fontsize=6, parse_math=False)  # fmt: skip
    if curve:
        axes.step([p.x for p in curve], [p.y for p in curve], where="post", linewidth=1.2,
                  color=figures.INK)  # fmt: skip
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_plain)
        axes.xaxis.set_minor_formatter("")
    return figures.finished(figure, axes, x, y, legend)


def _plain(value: float, place: float) -> str:
    """Writes the number at a tick of an axis; matplotlib passes its place too."""
    return f"{value:g}"


def numbers_of_points(x: str, y: str, groups: Mapping[str, Sequence[Point]]) -> Numbers:
    """Makes a table of points: a row for each.

    Args:
        x: The name of the x axis.
        y: The name of the y axis.
        groups: The points by the name of their group.
    """
    rows = [
        [f"{group} {point.name}".strip(), f"{point.x:g}", f"{point.y:.2f}"]
        for group, some in groups.items()
        for point in some
    ]
    return Numbers(["point", x, y], rows)
