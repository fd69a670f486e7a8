"""Figures, drawn with matplotlib: as SVG in the page's colours, or as files for a paper."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ofcl.errors import OfclError
from ofcl.report.formats import short
from ofcl.report.series import Composition, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (4.6, 2.9)  # inches: of one figure, small enough to be read on a phone
COLOURS = ("#3b82c4", "#d9822b", "#3a9e6e", "#c4507a", "#8a6fc9", "#9a8540", "#4fa9b8", "#b3553f",
           "#6f7f8f", "#7a9b2e")  # fmt: skip
MARKERS = "os^Dv<>pXh"
INK = "#000000"  # replaced by the text colour of a page
LEGEND_AT_MOST = 20  # names
BESIDE = (12, 15)  # letters and names of a legend that has room beside the axes
LONGEST = 60  # letters of a name in a legend
MARGINS = (0.66, 0.1, 0.46, 0.1)  # inches around the axes: left, right, bottom, top
LETTER, LINE = 0.062, 0.16  # inches of a letter and of a line in a legend

_GROUP_ID = re.compile(r' id="[\w.]+_\d+"')


def panels(n: int) -> tuple[Figure, list[Axes]]:
    """Makes an empty figure, laid out by matplotlib.

    Args:
        n: The number of panels, side by side.
    """
    width = SIZE[0] if n == 1 else 3.2 * n
    figure = _new_figure((width, SIZE[1]), "constrained")
    return figure, list(figure.subplots(1, n, squeeze=False)[0])


def _new_figure(size: tuple[float, float], layout: Literal["constrained"] | None) -> Figure:
    """Makes a figure without a panel.

    Args:
        size: Its width and height in inches.
        layout: How matplotlib works out the place of panels; None: not at all.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OfclError("drawing needs matplotlib: pip install 'ofcl[report]'") from None
    return Figure(figsize=size, layout=layout)


def blank() -> tuple[Figure, Axes]:
    """Makes an empty figure with one panel, whose place `finished` works out.

    Matplotlib's own layout takes twice as long as all the drawing.
    """
    figure = _new_figure(SIZE, None)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure, axes


def lines(
    curves: Sequence[Curve],
    *,
    x: str,
    y: str,
    marked: bool = True,
    starts: Sequence[float] = (),
    top: float | None = None,
    whole: bool = False,
) -> Figure:
    """Draws curves.

    Args:
        curves: The curves.
        x: The name of the x axis.
        y: The name of the y axis.
        marked: Whether each point of a curve has a marker; otherwise curves differ by their dashes.
        starts: The places on the x axis where dotted vertical lines are drawn.
        top: The upper end of the y axis; None: as the values need.
        whole: Whether the ticks of the x axis are at whole numbers only.
    """
    figure, axes = blank()
    form: dict[str, Any]
    legend = []
    dashes = cycle(["-", "--", ":"])
    for curve, (colour, marker) in zip(curves, styles(len(curves)), strict=True):
        form = {"marker": marker, "markersize": 4} if marked else {"linestyle": next(dashes)}
        (drawn,) = axes.plot(curve.x, curve.y, color=colour, linewidth=1.6, **form)
        legend.append((curve.name, drawn))
    for start in starts:
        axes.axvline(start, color="#8a8a8a", linestyle=":", linewidth=0.8)
    axes.set_ylim(bottom=0, top=top)
    if whole:
        axes.locator_params(axis="x", integer=True)
    return finished(figure, axes, x, y, legend)


def bars(groups: Mapping[str, Sequence[float | None]], *, x: str, y: str) -> Figure:
    """Draws bars side by side.

    Args:
        groups: For each name, the heights of its bars at 1, 2 and so on; None: no bar. Each name
            has a colour.
        x: The name of the x axis.
        y: The name of the y axis.
    """
    figure, axes = blank()
    width = 0.8 / max(len(groups), 1)
    longest = max((len(values) for values in groups.values()), default=0)
    style, legend = styles(len(groups)), []
    for n, (name, values) in enumerate(groups.items()):
        places = np.arange(len(values)) + 1 + (n - (len(groups) - 1) / 2) * width
        heights = [np.nan if value is None else value for value in values]
        legend.append((name, axes.bar(places, heights, width, color=style[n][0])))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks(range(1, longest + 1))
    return finished(figure, axes, x, y, legend)


def named_bars(values: Mapping[str, float | None], *, y: str) -> Figure:
    """Draws one bar for each name; long names, and many, stand one below the other.

    Args:
        values: The heights by name; None: no bar.
        y: The name of the axis of the heights.
    """
    figure, axes = blank()
    heights = [np.nan if value is None else value for value in values.values()]
    names = [short(name, LONGEST // 2) for name in values]
    places = range(len(names))
    if max(map(len, names), default=0) <= 8 and len(names) <= 8:
        axes.bar(places, heights, color=COLOURS[0])
        axes.axhline(0, color=INK, linewidth=0.8)
        axes.set_xticks(places, names, parse_math=False)
        return finished(figure, axes, "", y)
    figure.set_figheight(max(0.7 + 0.2 * len(names), SIZE[1] / 2))
    axes.barh(places, heights, color=COLOURS[0])
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(places, names, parse_math=False)
    axes.invert_yaxis()
    margin = 0.3 + LETTER * max(map(len, names), default=0)
    return finished(figure, axes, y, "", margin=margin)


def areas(composition: Composition, names: Mapping[int, str]) -> Figure:
    """Draws the numbers of samples in memories over time, as stacked areas.

    Args:
        composition: The number of samples of each kind (task or class) over time.
        names: The name of each kind.
    """
    figure, axes = blank()
    colours = [colour for colour, _ in styles(len(composition.counts))]
    labels = [names[kind] for kind in composition.counts]
    stacked = composition.counts.values()
    drawn = axes.stackplot(composition.batches, *stacked, colors=colours)
    legend = list(zip(labels, drawn, strict=True))
    return finished(figure, axes, "mini-batches of a client", "samples, all clients", legend)


def histogram(values: Mapping[str, Sequence[float]], *, x: str) -> Figure:
    """Draws histograms on a logarithmic x axis, in percent of the values of each name.

    Values that are zero count as the smallest one that is drawn.

    Args:
        values: The values by name; each name is a histogram.
        x: The name of the x axis.
    """
    figure, axes = blank()
    together = np.concatenate([np.asarray(v, dtype=float) for v in values.values()])
    positive = together[together > 0]
    low, high = (positive.min(), positive.max()) if len(positive) else (1e-3, 1.0)
    low = max(low, high / 1e6)
    legend: list[tuple[str, Any]] = []
    edges = np.geomspace(low, high * 1.001 if high > low else low * 10, 31).tolist()
    for (name, some), (colour, _) in zip(values.items(), styles(len(values)), strict=True):
        if len(some):
            clipped = np.clip(some, low, high)
            share = np.full(len(clipped), 100 / len(clipped))
            _, _, drawn = axes.hist(clipped, edges, weights=share, color=colour, alpha=0.6)
            legend.append((f"{name} ({len(clipped)})", drawn))
    axes.set_xscale("log")
    # Plain numbers: matplotlib would write powers of ten as TeX, which a page shows as it is.
    axes.xaxis.set_major_formatter(_plain)
    axes.xaxis.set_minor_formatter(_plain if high < 10 * low else "")
    return finished(figure, axes, x, "% of them", legend)


def _plain(value: float, place: float) -> str:
    """Writes the number at a tick of an axis; matplotlib passes its place too."""
    return f"{value:g}"


def styles(n: int) -> list[tuple[Any, str]]:
    """Chooses a colour and a marker for each of n curves or bars.

    Args:
        n: How many are needed; if there are more than `COLOURS`, colours come from a scale.
    """
    if n <= len(COLOURS):
        return list(zip(COLOURS, MARKERS, strict=True))[:n]
    from matplotlib import colormaps

    scale = colormaps["turbo"](np.linspace(0.05, 0.95, n))
    return list(zip(map(tuple, scale), cycle(MARKERS), strict=False))


def finished(
    figure: Figure,
    axes: Axes,
    x: str,
    y: str,
    legend: Sequence[tuple[str, Any]] = (),
    margin: float = MARGINS[0],
) -> Figure:
    """Names the axes of a figure, adds the legend, and returns the figure.

    Args:
        figure: The figure.
        axes: The figure's panel.
        x: The name of the x axis.
        y: The name of the y axis.
        legend: Names with what is drawn for each; fewer than two, or very many, get no legend.
        margin: The inches to the left of the axes.
    """
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    _, right, bottom, top = MARGINS
    if 1 < len(legend) <= LEGEND_AT_MOST:
        beside, below = _add_legend(figure, legend)
        right, bottom = right + beside, bottom + below
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left=margin / width, right=1 - right / width, bottom=bottom / height,
                           top=1 - top / height)  # fmt: skip
    return figure


def _add_legend(figure: Figure, legend: Sequence[tuple[str, Any]]) -> tuple[float, float]:
    """Adds a legend beside the axes, or below them if it is large.

    Args:
        figure: The figure, which grows by the lines below the axes.
        legend: Names with what is drawn for each.

    Returns:
        The inches that the legend needs beside the axes, and below them.
    """
    names, handles = [short(name, LONGEST) for name, _ in legend], [drawn for _, drawn in legend]
    longest = max(map(len, names))
    place: Literal["upper left", "lower left"]
    width, height = figure.get_size_inches()
    if longest <= BESIDE[0] and len(names) <= BESIDE[1]:
        columns, needed = 1, (0.5 + LETTER * longest, 0.0)
        place, at = "upper left", (1 - needed[0] / width, 1.0)
    else:
        columns = min(max(int(width / (0.5 + LETTER * longest)), 1), len(names))
        needed = (0.0, 0.1 + LINE * math.ceil(len(names) / columns))
        figure.set_figheight(height + needed[1])
        place, at = "lower left", (0.0, 0.0)
    box = figure.legend(handles, names, loc=place, bbox_to_anchor=at, ncols=columns, fontsize=7,
                        frameon=False)  # fmt: skip
    for text in box.get_texts():
        text.set_parse_math(False)  # a class may be called $
    return needed


@contextmanager
def any_letters() -> Iterator[None]:
    """Draws without matplotlib's warnings about letters that its own fonts do not have.

    A browser draws the letters of a page with its fonts, so matplotlib's need not have them.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def as_svg(figure: Figure, name: str) -> str:
    """Returns a figure as SVG for a page: letters as text, in the page's own text colour.

    Args:
        figure: The figure.
        name: A name that no other figure of the page has; the ids in the SVG are made from it.
    """
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), any_letters():
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    return _GROUP_ID.sub("", re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL))


def save(figure: Figure, stem: Path) -> list[Path]:
    """Saves a figure for a paper, as SVG and as PDF.

    Args:
        figure: The figure.
        stem: The path without the suffix.

    Returns:
        The paths of the two files.
    """
    paths = [stem.with_name(stem.name + suffix) for suffix in (".svg", ".pdf")]
    for path in paths:
        with any_letters():
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else
                           {"CreationDate": None})  # fmt: skip
    return paths
