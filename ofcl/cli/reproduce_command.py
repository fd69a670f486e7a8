"""`ofcl reproduce`: runs what is missing of a table of the paper, and compares."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ofcl.cli.field_command import reproduce_field
from ofcl.cli.reproduced_runs import make_at_once, make_one_by_one, name_of, tell_plan
from ofcl.cli.several_runs import Jobs, check_failures
from ofcl.cli.terminal import out_console, warn
from ofcl.errors import OfclError
from ofcl.jobs.opening import check_same
from ofcl.jobs.work import Ended, Work
from ofcl.report import figures
from ofcl.reproduce import paper, plan, verdicts
from ofcl.reproduce.field import FIELD
from ofcl.reproduce.toy import draw_toy, make_toy
from ofcl.settings.files import parse_override
from ofcl.settings.layers import make_settings

FIGURE = "figure2"  # the paper's other figures are drawn from runs: ofcl report --figures


def reproduce(
    table: Annotated[
        str, typer.Argument(help=f"One of {', '.join([*paper.TABLES, FIGURE, FIELD])}.")
    ],
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many, from 0; default: 3, for the field 5.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help="Default: published; for the field sound and strong.")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Some of its cells: cifar10, M200, bi, with / between.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be run, and how long it would take.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the runs and tables.")] = Path("reproduced"),
    data_root: Annotated[str | None, typer.Option(help="Folder of the datasets.")] = None,
    embedder: Annotated[str | None, typer.Option(help="Texts: as for ofcl run.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting as key=value, for all runs.")
    ] = None,
    jobs: Jobs = 1,
    data: Annotated[
        list[str] | None,
        typer.Option(help="field: where a dataset is, NAME=PATH (folder or file); repeatable."),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="field: also write its page here.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run what is missing of a table of the paper, and put our numbers beside its numbers.

    `field` is all methods of this package, ranked, with their costs. A stopped command goes on
    where it was; runs that exist are not run again.
    """
    if table == FIGURE:
        _draw_figure(out, dry_run)
        return
    given = {"data_root": data_root, "embedder": embedder, "device": device}
    further = {key: value for key, value in given.items() if value is not None}
    further |= dict(map(parse_override, set_ or []))
    if table == FIELD:
        reproduce_field(seeds=seeds, protocol=protocol, only=only, dry_run=dry_run, out=out,
                        data=data or (), further=further, jobs=jobs, page=page,
                        quiet=quiet)  # fmt: skip
        return
    if data or page:
        raise OfclError(f"--data and --page are for the field, not for {table}")
    _reproduce_table(table, only, seeds or 3, protocol or "published", further, out, jobs, dry_run,
                     quiet)  # fmt: skip


def _reproduce_table(
    table: str,
    only: str | None,
    seeds: int,
    protocol: str,
    further: dict[str, Any],
    out: Path,
    at_once: int,
    dry_run: bool,
    quiet: bool,
) -> None:
    """Makes the missing runs of a table of the paper, and compares.

    Args:
        table: The name of the table.
        only: Those cells alone that fit a description; None: all.
        seeds: How many seeds.
        protocol: The name of the protocol.
        further: Settings for all runs.
        out: The folder of the runs and tables.
        at_once: How many runs are made at once.
        dry_run: Whether to print only what would be run.
        quiet: Whether to show no progress.
    """
    make_settings({"protocol": protocol})  # an unknown one is refused before anything else
    jobs = plan.jobs(paper.choose(table, only), seeds, protocol, out, further)
    for job in jobs:
        if job.directory.started():
            check_same(job.directory, job.settings)
    missing = [job for job in jobs if job.result is None]
    if dry_run:
        tell_plan(jobs, missing)
        return
    ended: dict[Work, Ended] = {}
    if at_once == 1:
        make_one_by_one(missing, quiet)
    else:
        ended = make_at_once(missing, at_once, quiet)
    show(judge(jobs))
    # The files have the whole table: `only` is about what is run and shown now.
    whole = plan.jobs(paper.table(table), seeds, protocol, out, further)
    save(judge(whole, _fits), out / f"{table}-{protocol}")
    check_failures(ended, name_of)


def _draw_figure(out: Path, dry_run: bool) -> None:
    """Draws Figure 2 of the paper: confidence and Bregman information on a plane.

    Args:
        out: The folder in which the figure is saved.
        dry_run: Whether to print only how long it would take.
    """
    if dry_run:
        out_console.print("a figure: some seconds", highlight=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    for path in figures.save(draw_toy(make_toy()), out / FIGURE):
        out_console.print(str(path), highlight=False, soft_wrap=True, markup=False)


def _fits(job: plan.Job) -> bool:
    """Tells whether a run was made with the settings that its table asks for; warns if not."""
    try:
        check_same(job.directory, job.settings, but_for=("device", "data_root"))
    except OfclError as error:
        warn(f"not in the files: {error}")
        return False
    return True


def judge(
    jobs: list[plan.Job], wanted: Callable[[plan.Job], bool] = lambda job: True
) -> list[verdicts.Verdict]:
    """Compares finished runs with the paper, cell by cell.

    Args:
        jobs: The runs of the table, finished or not.
        wanted: Tells whether a finished run counts; default: every one does.

    Returns:
        A verdict for each cell of the table, also for one without finished runs.
    """
    judged = []
    for _, of_cell in groupby(jobs, key=lambda job: id(job.cell)):
        runs = list(of_cell)
        results = []
        for job in runs:
            result = job.result
            if result is not None and wanted(job):
                results.append(result)
        settings = runs[0].settings
        judged.append(verdicts.judge(runs[0].cell, results, settings.spread, settings.tasks))
    return judged


def show(judged: list[verdicts.Verdict]) -> None:
    """Prints verdicts as a table.

    Args:
        judged: A verdict for each cell: our results beside the paper's.
    """
    table = Table(*verdicts.COLUMNS, box=None, pad_edge=False)
    for verdict in judged:
        table.add_row(*verdict.row())
    out_console.print(table, highlight=False)
    out_console.print(
        f"off: our mean less the paper's, in its standard deviations (σ); agrees up to "
        f"{verdicts.AGREES:g} σ, near up to {verdicts.NEAR:g} σ",
        highlight=False,
    )


def save(judged: list[verdicts.Verdict], stem: Path) -> None:
    """Saves verdicts as a table in Markdown, LaTeX and CSV.

    Args:
        judged: A verdict for each cell: our results beside the paper's.
        stem: The path of the files, without the suffix.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    forms = {".md": verdicts.as_markdown, ".tex": verdicts.as_latex, ".csv": verdicts.as_csv}
    for suffix, form in forms.items():
        stem.with_name(stem.name + suffix).write_text(form(judged), encoding="utf-8")
    out_console.print(f"saved as {stem}.md, .tex and .csv", highlight=False, soft_wrap=True)
