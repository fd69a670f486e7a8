"""The pages of the field: tables in Markdown, HTML and CSV, and costs against accuracy as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ofcl.report import formats
from ofcl.report.drawn import Drawn, Numbers
from ofcl.report.formats import number
from ofcl.report.page import render
from ofcl.report.scatter import Point, numbers_of_points, panels_of_points, points, save_svg
from ofcl.report.spread import Spread
from ofcl.reproduce.ranking import Rank, ranks
from ofcl.reproduce.standings import Standing, Table
from ofcl.storage.atomic_files import write_whole

COLUMNS = ["method", "rank [95 %]", "A ↑", "less the best's [95 %]", "F ↓", "server's A",
           "server's F", "right after", "seconds", "MB", "memory, kB", "seeds",
           "paper's A / F"]  # fmt: skip
COST, ACCURACY = "seconds of a run", "A, %"
ABOUT = [
    "A and F are means over clients, in percent, ± over seeds; the server's are of its own model.",
    "Right after: the mean accuracy on a task when it has just been learned (plasticity).",
    "MB: all models and more that all clients send and receive in a run. Memory: of a client at "
    "the end of a run, with what chooses among samples: scores need a copy of the model.",
    "Ranks are by A, on the seeds that all methods of a table have; 95 % intervals are from a "
    "bootstrap over seeds, those of differences over seeds and clients.",
    "The last column has what Serra & Buettner (ICLR 2025) report with the same dataset, number of "
    "clients and memory, from their released code (texts embedded by e5-small-v2); empty: we know "
    "of no figure for a comparable setting (one pass, several clients), or other settings or data "
    "were given.",
]


def overall(tables: Sequence[Table]) -> dict[str, Rank]:
    """Ranks the methods that have finished runs in every table, over all tables.

    Args:
        tables: The tables; those without finished runs are left aside.
    """
    return ranks([table.values() for table in tables if table.standings])


def rows(table: Table) -> list[list[str]]:
    """Writes the standings of a contest as rows of texts, in the order of `COLUMNS`.

    Args:
        table: The table.
    """
    return [
        [
            s.method,
            str(s.rank or "–"),
            str(s.over_seeds("A")),
            str(s.less_best or ""),
            *(str(s.over_seeds(name)) for name in ("F", "global_A", "global_F", "plasticity")),
            number(s.over_seeds("seconds").mean),
            number(_scaled(s.over_seeds("bytes").mean, 1e6)),
            number(_scaled(s.memory_bytes, 1e3)),
            str(len(s.results)),
            _published(s),
        ]
        for s in table.standings
    ]


def _scaled(value: float | None, unit: float) -> float | None:
    """Divides a number by its unit; None stays None."""
    return None if value is None else value / unit


def _published(standing: Standing) -> str:
    """Writes the figures that the paper has; empty if it has none."""
    cell = standing.cell
    if cell.A is None:
        return ""
    return f"{Spread(cell.A, cell.A_std)} / {Spread(cell.F, cell.F_std)}"


def overall_rows(tables: Sequence[Table]) -> list[list[str]]:
    """Writes the ranks over all tables as rows: method, mean rank, and A in each table.

    Args:
        tables: The tables.
    """
    filled = [table for table in tables if table.standings]
    means = [{s.method: s.over_seeds("A").mean for s in table.standings} for table in filled]
    return [
        [method, str(rank), *(number(mean[method]) for mean in means)]
        for method, rank in overall(tables).items()
    ]


def overall_columns(tables: Sequence[Table]) -> list[str]:
    """Names the columns of `overall_rows`.

    Args:
        tables: The tables.
    """
    return ["method", "mean rank [95 %]", *(f"{t.dataset}, {t.protocol}" for t in tables
                                             if t.standings)]  # fmt: skip


def as_markdown(tables: Sequence[Table], command: str, picture: str) -> str:
    """Makes the page in Markdown.

    Args:
        tables: The tables.
        command: The command that makes the page again.
        picture: The path of the picture, seen from the page.
    """
    parts = ["# The field, side by side\n", f"    {command}\n", _list(ABOUT)]
    if best := overall_rows(tables):
        parts += ["## Over all tables\n",
                  "Methods with finished runs in every table, and their A in each.\n",
                  formats.as_markdown(overall_columns(tables), best)]  # fmt: skip
    if any(table.standings for table in tables):
        parts += ["## Cost and accuracy\n", f"![{ACCURACY} against {COST}]({picture})\n"]
    for table in tables:
        parts.append(f"## {table.title}\n")
        if table.standings:
            parts.append(formats.as_markdown(COLUMNS, rows(table)))
        parts += [f"{line}\n" for line in remarks(table)]
    return "\n".join(parts)


def _list(lines: Sequence[str]) -> str:
    """Writes lines as a list in Markdown."""
    return "".join(f"- {line}\n" for line in lines)


def remarks(table: Table) -> list[str]:
    """Says which methods are not in a table, and why.

    Args:
        table: The table.
    """
    lines = [f"{m} does not apply: {reason}." for m, reason in table.does_not_apply.items()]
    return lines + ([f"Not run: {', '.join(table.missing)}."] if table.missing else [])


def as_csv(tables: Sequence[Table]) -> str:
    """Writes all results as CSV: a row for each run.

    Args:
        tables: The tables.
    """
    names = ["A", "F", "global_A", "global_F", "validation_A", "anytime_accuracy", "seconds",
             "rounds", "bytes_sent", "bytes_received"]  # fmt: skip
    lines = [
        [table.dataset, table.protocol, s.method, seed, *(getattr(r, name) for name in names),
         Standing(s.cell, {seed: r}, None).over_seeds("plasticity").mean, s.memory_bytes]
        for table in tables for s in table.standings for seed, r in sorted(s.results.items())
    ]  # fmt: skip
    columns = ["dataset", "protocol", "method", "seed", *names, "plasticity", "memory_bytes"]
    return formats.as_csv(columns, lines)


def cost_points(table: Table) -> list[Point]:
    """Makes a point for each method: seconds of a run, and A.

    Args:
        table: The table.
    """
    found = [(s.over_seeds("seconds").mean, s.over_seeds("A").mean, s.method)
             for s in table.standings]  # fmt: skip
    return [Point(x, y, name) for x, y, name in found if x is not None and y is not None]


def as_html(tables: Sequence[Table], command: str) -> str:
    """Makes the page in HTML.

    Args:
        tables: The tables.
        command: The command that makes the page again.
    """
    drawn = {table.title: _drawn(table) for table in tables if table.standings}
    best = overall_rows(tables)
    return render(
        "field.html",
        {id(figure): figure.name for figure in drawn.values()},
        "",
        command=command,
        about=ABOUT,
        overall=Numbers(overall_columns(tables), best),
        columns=COLUMNS,
        tables=[(t.title, rows(t), remarks(t), [drawn[t.title]] if t.title in drawn else [])
                for t in tables],
    )  # fmt: skip


def _drawn(table: Table) -> Drawn:
    """Draws cost and accuracy of one table."""
    groups = {"methods": cost_points(table)}
    return Drawn(
        f"cost-{table.dataset}-{table.protocol}",
        f"Cost and accuracy: {table.title}",
        points(groups, x=COST, y=ACCURACY, log=True),
        numbers_of_points(COST, ACCURACY, groups),
    )


def save_pages(
    tables: Sequence[Table], command: str, folder: Path, page: Path | None
) -> list[Path]:
    """Saves the pages, the picture, and all results.

    Args:
        tables: The tables.
        command: The command that makes the pages again.
        folder: The folder for `field.md`, `.html`, `.csv` and `.svg`.
        page: A further path for the page in Markdown, with the picture beside it; None: none.

    Returns:
        The paths of the pages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = [folder / "field.md", *([page] if page is not None else [])]
    panels = {table.title: cost_points(table) for table in tables if table.standings}
    for path in pages:
        picture = path.with_suffix(".svg")
        if panels:
            save_svg(panels_of_points(panels, x=COST, y=ACCURACY), picture)
        write_whole(path, as_markdown(tables, command, picture.name))
    write_whole(folder / "field.csv", as_csv(tables))
    write_whole(folder / "field.html", as_html(tables, command))
    return [*pages, folder / "field.html", folder / "field.csv"]
