"""`ofcl reproduce field`: every method of the package, ranked, with its costs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ofcl.assembly.resolve import find_device
from ofcl.cli.reproduced_runs import make_at_once, name_of, tell_plan
from ofcl.cli.several_runs import check_failures
from ofcl.cli.terminal import out_console, warn
from ofcl.errors import OfclError
from ofcl.jobs.opening import check_same
from ofcl.jobs.work import Ended, Work
from ofcl.reproduce import field_page
from ofcl.reproduce.field import PROTOCOLS, SEEDS, Contest, contests, read_places
from ofcl.reproduce.plan import Job
from ofcl.reproduce.standings import Table, make_table
from ofcl.settings.layers import make_settings
from ofcl.storage.atomic_files import write_whole

REFUSALS = "field-refusals.json"
_ELSEWHERE = ("device", "data_root")  # settings that change no figure but the seconds


def reproduce_field(
    *,
    seeds: int | None,
    protocol: str | None,
    only: str | None,
    dry_run: bool,
    out: Path,
    data: Sequence[str],
    further: dict[str, Any],
    jobs: int,
    page: Path | None,
    quiet: bool,
) -> None:
    """Makes the missing runs of the field, and its pages.

    Args:
        seeds: How many seeds; None: five.
        protocol: The name of one protocol; None: both of the suite.
        only: Those parts alone that fit a description; None: all.
        dry_run: Whether to print only what would be run.
        out: The folder of the runs and pages.
        data: Where datasets are, as `NAME=PATH`.
        further: Settings for all runs.
        jobs: How many runs are made at once.
        page: A further path for the page in Markdown; None: none.
        quiet: Whether to show no progress.

    Raises:
        OfclError: If runs have failed; all others are made, and the pages too.
    """
    protocols = PROTOCOLS if protocol is None else (protocol,)
    for name in protocols:
        make_settings({"protocol": name})  # an unknown one is refused before anything else
    find_device(str(further.get("device", "auto")))  # one that is not there is no method's refusal
    number, places = seeds or SEEDS, read_places(data)
    chosen = contests(number, protocols, out, further, places, only)
    all_jobs = [job for contest in chosen for job in contest.jobs]
    for job in all_jobs:
        if job.directory.started():
            check_same(job.directory, job.settings)
    missing = [job for job in all_jobs if job.result is None]
    if dry_run:
        tell_plan(all_jobs, missing)
        return
    ended = make_at_once(missing, jobs, quiet, _not_refused)
    refusals = _remember_refusals(out / REFUSALS, ended)
    # The pages have the whole field: `only` is about what is run now.
    whole = contests(number, PROTOCOLS if protocol is None else protocols, out, further, places)
    tables = [make_table(_fitting(c), _refusals_of(c, refusals)) for c in whole]
    command = _command(number, protocol, further, places)
    for path in field_page.save_pages(tables, command, out, page):
        out_console.print(str(path), highlight=False, soft_wrap=True, markup=False)
    _show(tables)
    check_failures({w: e for w, e in ended.items() if e.outcome != "refused"}, name_of)


def _command(
    seeds: int,
    protocol: str | None,
    further: Mapping[str, Any],
    places: Mapping[str, Mapping[str, Any]],
) -> str:
    """Writes the command that makes the pages again, without the folders of this machine.

    Args:
        seeds: How many seeds.
        protocol: The name of one protocol; None: both.
        further: Settings for all runs.
        places: Settings of single datasets.
    """
    parts = [f"ofcl reproduce field --seeds {seeds}"]
    parts += [f"--protocol {protocol}"] if protocol else []
    parts += [f"--set {name}={value}" for name, value in further.items() if name not in _ELSEWHERE]
    parts += [f"--data {name}={Path(place['dataset']).name}" for name, place in places.items()
              if "dataset" in place]  # fmt: skip
    return " ".join(parts)


def _not_refused(work: Work, ended: Mapping[Work, Ended]) -> bool:
    """Tells whether no other seed of the same cell was refused: this one would be, too."""
    refused = {w.path.parent for w, end in ended.items() if end.outcome == "refused"}
    return work.path.parent not in refused


def _remember_refusals(path: Path, ended: Mapping[Work, Ended]) -> dict[str, str]:
    """Adds refusals to those of earlier commands; a cell that was run now is taken out.

    Args:
        path: The file of the refusals.
        ended: How the runs of this command have ended.

    Returns:
        The reasons by the folder of the cell, seen from the folder of the runs.
    """
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for work, end in ended.items():
        cell = str(work.path.parent.relative_to(path.parent))
        if end.outcome == "refused":
            known[cell] = end.message
        elif end.outcome == "finished":
            known.pop(cell, None)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(known, indent=1) + "\n")
    return known


def _refusals_of(contest: Contest, refusals: Mapping[str, str]) -> dict[str, str]:
    """Finds the reasons why methods refuse a contest, by method."""
    cells = {job.cell.row: job.directory.path.parent for job in contest.jobs}
    return {
        method: reason
        for method, folder in cells.items()
        for cell, reason in refusals.items()
        if folder.parts[-2:] == Path(cell).parts[-2:]
    }


def _fitting(contest: Contest) -> Contest:
    """Leaves out runs that were made with other settings than these, with a warning."""

    def fits(job: Job) -> bool:
        """Tells whether a run, if there is one, has the settings that are asked for."""
        if not job.directory.started():
            return True
        try:
            check_same(job.directory, job.settings, but_for=("device", "data_root", "dataset"))
        except OfclError as error:
            warn(f"not in the pages: {error}")
            return False
        return True

    return Contest(contest.dataset, contest.protocol, [job for job in contest.jobs if fits(job)])


def _show(tables: Sequence[Table]) -> None:
    """Prints the ranks over all tables, or says that there are none yet."""
    rows = field_page.overall_rows(tables)
    for row in rows:
        out_console.print(f"{row[0]:<10} mean rank {row[1]}", highlight=False, markup=False)
    if not rows:
        out_console.print("no method has finished runs in every table yet", highlight=False)
