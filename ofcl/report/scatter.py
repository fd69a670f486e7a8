"""Points in a plane, for example cost against accuracy: drawn, and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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

    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.2 * lines), layout="constrained")
    grid = list(figure.subplots(lines, columns, squeeze=False).flat)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, some) in zip(grid, panels.items(), strict=False):
        axes.scatter([p.x for p in some], [p.y for p in some], s=18, color=figures.COLOURS[0])
        for point in some:
            axes.annotate(short(point.name), (point.x, point.y), xytext=(3, 3),
                          textcoords="offset points", fontsize=7, parse_math=False)  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_plain)
        axes.xaxis.set_minor_formatter(_plain)
        axes.tick_params(labelsize=7, which="both")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(x, fontsize=8)
        axes.set_ylabel(y, fontsize=8)
    return figure


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
