"""`ofcl reproduce`: runs what is missing of a table of the paper, and compares."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ofcl.assembly.dealing import Loader
from ofcl.cli.progress import track
from ofcl.cli.run_loop import check_same, complete
from ofcl.cli.terminal import out_console, say, warn
from ofcl.errors import OfclError
from ofcl.report import figures
from ofcl.reproduce import paper, plan, verdicts
from ofcl.reproduce.toy import draw_toy, make_toy
from ofcl.settings.files import parse_override
from ofcl.settings.layers import make_settings

FIGURE = "figure2"  # the paper's other figures are drawn from runs: ofcl report --figures


def reproduce(
    table: Annotated[str, typer.Argument(help=f"One of {', '.join([*paper.TABLES, FIGURE])}.")],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 3,
    protocol: Annotated[str, typer.Option(help="published, or sound.")] = "published",
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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run what is missing of a table of the paper, and put our numbers beside its numbers.

    A stopped command goes on where it was; runs that exist are not run again.
    """
    if table == FIGURE:
        _draw_figure(out, dry_run)
        return
    make_settings({"protocol": protocol})  # an unknown one is refused before anything else
    cells = paper.choose(table, only)
    given = {"data_root": data_root, "embedder": embedder, "device": device}
    further = {key: value for key, value in given.items() if value is not None}
    further |= dict(map(parse_override, set_ or []))
    jobs = plan.jobs(cells, seeds, protocol, out, further)
    for job in jobs:
        if job.directory.started():
            check_same(job.directory, job.settings)
    missing = [job for job in jobs if job.result is None]
    if dry_run:
        _tell_plan(jobs, missing)
        return
    _run(missing, quiet)
    show(judge(jobs))
    # The files have the whole table: `only` is about what is run and shown now.
    whole = plan.jobs(paper.table(table), seeds, protocol, out, further)
    save(judge(whole, _fits), out / f"{table}-{protocol}")


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


def _tell_plan(jobs: list[plan.Job], missing: list[plan.Job]) -> None:
    """Prints the missing runs, and how long they would take on this machine.

    Args:
        jobs: All runs of the table.
        missing: Those of them that are not finished.
    """
    for job in missing:
        out_console.print(str(job.directory.path), highlight=False, soft_wrap=True, markup=False)
    seconds = plan.estimate(missing, say) if missing else 0.0
    hours, minutes = divmod(round(seconds / 60), 60)
    out_console.print(
        f"{len(jobs)} runs, {len(missing)} of them missing: about {hours} h {minutes} min here",
        highlight=False,
    )


def _run(missing: list[plan.Job], quiet: bool) -> None:
    """Makes the missing runs, dataset by dataset.

    If a dataset cannot be loaded, its runs are left out with a warning.

    Args:
        missing: The runs that are not finished.
        quiet: Whether to show no progress.
    """
    load = Loader(track, say)
    for dataset, of_it in groupby(missing, key=lambda job: job.settings.dataset):
        some = list(of_it)
        try:
            load(some[0].settings)
        except OfclError as error:
            warn(f"{len(some)} runs are left out: {error}")
            continue
        for n, job in enumerate(some, 1):
            if not quiet:
                say(f"{dataset}, run {n} of {len(some)}: {job.cell.row}, seed {job.settings.seed}")
            complete(job.directory.path, job.settings, load, quiet)


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
