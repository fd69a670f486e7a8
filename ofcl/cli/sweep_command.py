"""`ofcl sweep`: searches for settings that learn better, judged by validation."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ofcl.assembly.dealing import Loader
from ofcl.cli.jobs_view import jobs_view
from ofcl.cli.progress import track
from ofcl.cli.run_names import default_out
from ofcl.cli.several_runs import Jobs, gpus_for
from ofcl.cli.several_seeds import parse_seeds
from ofcl.cli.shared_options import Allow, Json, Quiet
from ofcl.cli.terminal import err_console, out_console, say, warn
from ofcl.errors import OfclError
from ofcl.jobs.pool import Pool
from ofcl.jobs.work import Work
from ofcl.settings.files import parse_override
from ofcl.stopping import Interrupted, stop_requested
from ofcl.storage.atomic_files import write_whole
from ofcl.storage.run_directory import RunDirectory
from ofcl.sweep import sweep_page
from ofcl.sweep.findings import Findings, find, save_best
from ofcl.sweep.searching import Search
from ofcl.sweep.study import Trials
from ofcl.sweep.sweep_file import SweepPlan, check_folder, read_plan

DATABASE, PAGE = "sweep.db", "sweep.html"


def sweep(
    file: Annotated[Path, typer.Argument(help="A settings file with a table [search].")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the sweep; with an existing one it goes on.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="How many; default: 30.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds of each trial: 0,1,2.")] = None,
    jobs: Jobs = 1,
    dataset: Annotated[str | None, typer.Option(help="A name, or a path.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of the datasets.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting as key=value, for all trials.")
    ] = None,
    allow: Allow = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search for settings that learn better; the same command goes on with a stopped sweep.

    Trials are judged by the validation accuracy, never by the test data.
    """
    named = {"dataset": dataset, "data_root": data_root, "device": device}
    further = {name: value for name, value in named.items() if value is not None}
    further |= dict(map(parse_override, set_ or []))
    wanted = parse_seeds(seeds) if seeds is not None else None
    plan = read_plan(file, further, trials, wanted, allow or ())
    usual = plan.settings({}, plan.seeds[0])
    folder = out or default_out(usual, "sweep")
    check_folder(folder, plan)
    with RunDirectory(folder).lock():
        found = Trials(folder / DATABASE, plan.space, plan.seed, plan.prune)
        Loader(track, say)(usual)  # once: what must be downloaded or embedded is then there for all
        _search(plan, folder, found, jobs, quiet or as_json)
        findings = find(plan, folder, found.records())
        best = save_best(plan, folder, findings)
        write_whole(folder / PAGE, sweep_page.page(plan, findings, found.importances()))
    _tell(findings, folder, best, as_json)
    if findings.best is None:
        reasons = {record.reason for record in findings.records if record.reason}
        raise OfclError(f"no trial is complete: {'; '.join(sorted(reasons)) or 'all were stopped'}")


def _search(plan: SweepPlan, folder: Path, trials: Trials, jobs: int, quiet: bool) -> None:
    """Makes the trials that are missing, and shows their progress.

    Args:
        plan: The plan of the sweep.
        folder: Its folder.
        trials: Its trials so far.
        jobs: How many runs are made at once.
        quiet: Whether to show no progress.

    Raises:
        Interrupted: If Ctrl-C or SIGTERM comes; all runs have then saved their state.
    """
    stop = threading.Event()
    runs = (plan.trials + 1) * len(plan.seeds)
    gpus = gpus_for([Work(folder, plan.settings({}, plan.seeds[0]))])
    with (
        stop_requested(stop),
        Pool(jobs, gpus) as pool,
        jobs_view(runs, err_console, quiet) as view,
    ):
        search = Search(plan, folder, trials, pool, stop)
        for name, work, report in search:
            view.show(name, work, report)
    if search.default_problem:
        warn(f"the default cannot be run: {search.default_problem}")
    if stop.is_set():
        raise Interrupted("stopped, and all runs are saved; the same command with "
                          f"--out {folder} goes on")  # fmt: skip


def _tell(findings: Findings, folder: Path, best: Path | None, as_json: bool) -> None:
    """Prints the outcome of a sweep.

    Args:
        findings: The outcome.
        folder: The folder of the sweep.
        best: The file of the best settings; None: there is none.
        as_json: Whether to print JSON.
    """
    if as_json:
        told: dict[str, Any] = {
            "directory": str(folder),
            "trials": findings.counts,
            "best": asdict(findings.best) if findings.best else None,
            "default": findings.default,
            "settings": str(best) if best else None,
        }
        print(json.dumps(told))
        return
    states = ", ".join(f"{count} {state}" for state, count in sorted(findings.counts.items()))
    lines = [f"{len(findings.records)} trials: {states}", findings.verdict()]
    if best is not None:
        lines += [f"run it: ofcl run {best}", f"look at it: {folder / PAGE}"]
    for line in lines:
        out_console.print(line, highlight=False, soft_wrap=True, markup=False)
