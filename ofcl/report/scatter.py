"""Points in a plane, for example cost against accuracy: drawn, and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ofcl.report import figures
from ofcl.report.drawn import Numbers
from ofcl.report.formats import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Side = Literal["left", "right"]
Place = tuple[Side, float, float]
"""Which end of a label is beside its point, and how far away it is, in points of a page."""

Box = tuple[float, float, float, float]

PLACES: list[Place] = [
    place
    for up in (3.0, -6.0, 11.0, -14.0, 19.0, -22.0)
    for place in (("left", 5.0, up), ("right", -5.0, up))
]  # the first are the best
NEAR = 0.025  # share of a panel within which two points get one label


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


def panels_of_points(
    panels: Mapping[str, Sequence[Point]], *, x: str, y: str, columns: int = 2
) -> Figure:
    """Draws points in several panels, with a logarithmic x axis, for a file of its own.

    Args:
        panels: The points by the title of their panel.
        x: The name of the x axes.
        y: The name of the y axes.
        columns: The number of panels side by side.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.2 * lines), layout="constrained")
    grid = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, some) in zip(grid, panels.items(), strict=False):
        axes.scatter([p.x for p in some], [p.y for p in some], s=18, color=figures.COLOURS[0])
        for name, (x_of, y_of), (side, across, up) in labels(some):
            axes.annotate(name, (x_of, y_of), xytext=(across, up), textcoords="offset points",
                          ha=side, va="center", fontsize=7, parse_math=False)  # fmt: skip
        axes.set_xscale("log")
        axes.margins(x=0.12, y=0.09)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(_plain)
        axes.xaxis.set_minor_formatter("")
        axes.tick_params(labelsize=7, which="both")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(x, fontsize=8)
        axes.set_ylabel(y, fontsize=8)
    return figure


def labels(points: Sequence[Point]) -> list[tuple[str, tuple[float, float], Place]]:
    """Places the names of points so that few lie upon each other; the x axis is logarithmic.

    Points that nearly coincide share one label. The sizes of letters are estimates.

    Args:
        points: The points of a panel.

    Returns:
        For each label what it says, the point that it belongs to, and its place beside it.
    """
    along, up = [math.log(p.x) for p in points], [p.y for p in points]
    wide, tall = (max(ends) - min(ends) or 1.0 for ends in (along, up))
    where = {p: (math.log(p.x) / wide, p.y / tall) for p in points}
    lumps: list[list[Point]] = []
    for point in points:
        near = (x for x in lumps if math.dist(where[x[0]], where[point]) < NEAR)
        if (lump := next(near, None)) is not None:
            lump.append(point)
        else:
            lumps.append([point])
    found = []
    taken = [(x - 0.01, y - 0.015, x + 0.01, y + 0.015) for x, y in where.values()]
    for lump in lumps:
        name, first = ", ".join(short(p.name) for p in lump), lump[0]
        boxes = {place: _box(where[first], name, place) for place in PLACES}
        crowd = {place: sum(_overlap(box, other) for other in taken)
                 for place, box in boxes.items()}  # fmt: skip
        place = min(PLACES, key=lambda p: crowd[p])
        taken.append(boxes[place])
        found.append((name, (first.x, first.y), place))
    return found


def _box(at: tuple[float, float], name: str, place: Place) -> Box:
    """Estimates where a label lies, in shares of a panel: left, bottom, right, top."""
    side, across, up = place
    width, x, y = 0.016 * len(name), at[0] + across / 250, at[1] + up / 170
    left = x if side == "left" else x - width
    return left, y - 0.022, left + width, y + 0.022


def _overlap(one: Box, other: Box) -> bool:
    """Says whether two boxes overlap."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def save_svg(figure: Figure, path: Path) -> None:
    """Saves a figure as SVG; the same figure gives the same file.

    Args:
        figure: The figure.
        path: The path of the file.
    """
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": path.stem}), figures.any_letters():
        figure.savefig(path, format="svg", metadata={"Date": None})
