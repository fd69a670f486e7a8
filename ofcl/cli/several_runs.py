"""Runs made several at once (`--jobs`), with one progress display and one end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

import typer

from ofcl.cli.jobs_view import jobs_view
from ofcl.cli.terminal import err_console
from ofcl.errors import OfclError
from ofcl.jobs.machine import visible_gpus
from ofcl.jobs.making import make_all
from ofcl.jobs.pool import Pool
from ofcl.jobs.work import Ended, Work
from ofcl.settings.schema import Settings
from ofcl.stopping import Interrupted, stop_requested

Jobs = Annotated[
    int, typer.Option(min=1, help="Make so many runs at once, on one GPU or over several.")
]


def check_jobs(settings: Settings, jobs: int) -> None:
    """Refuses runs that cannot be made several at once.

    Args:
        settings: The settings of such a run.
        jobs: How many are to be made at once.

    Raises:
        OfclError: If each of them would start a cluster of its own.
    """
    if jobs > 1 and settings.engine != "local":
        raise OfclError(
            f"jobs = {jobs} is for engine = 'local'; {settings.engine} spreads the clients of one "
            "run over the machine already. Leave out --jobs"
        )


def gpus_for(works: Sequence[Work]) -> list[str]:
    """Lists the GPUs over which runs are spread; none if they name a device by its number.

    Args:
        works: The runs.
    """
    named = any(":" in work.settings.device or work.settings.device == "cpu" for work in works)
    return [] if named else visible_gpus()


def make_runs(
    works: Sequence[Work],
    jobs: int,
    quiet: bool,
    name: Callable[[Work], str],
    wanted: Callable[[Work, Mapping[Work, Ended]], bool] = lambda work, ended: True,
) -> dict[Work, Ended]:
    """Makes runs, several at once, and shows their progress.

    Args:
        works: The runs.
        jobs: How many are made at once.
        quiet: Whether to show no progress.
        name: Names a run for the user.
        wanted: Is asked just before a run begins, with the ends of the others so far, whether it is
            still to be made.

    Returns:
        How each of them has ended; those that were not made are left out.

    Raises:
        Interrupted: If Ctrl-C or SIGTERM comes; all runs have then saved their state.
    """
    stop, ended = threading.Event(), dict[Work, Ended]()

    def still_wanted() -> Iterable[Work]:
        """Yields the runs that are to be made when their turn comes."""
        for work in works:
            if wanted(work, ended):
                yield work

    with (
        stop_requested(stop),
        Pool(min(jobs, max(len(works), 1)), gpus_for(works)) as pool,
        jobs_view(len(works), err_console, quiet) as view,
    ):
        for work, report in make_all(still_wanted(), pool, stop):
            view.show(name(work), work, report)
            if isinstance(report, Ended):
                ended[work] = report
    if stop.is_set():
        raise Interrupted("stopped, and all runs are saved; the same command goes on with them")
    return ended


def check_failures(ended: Mapping[Work, Ended], name: Callable[[Work], str]) -> None:
    """Raises an error that names the runs that have failed, when all others have ended.

    Args:
        ended: How each run has ended.
        name: Names a run for the user.

    Raises:
        OfclError: If a run is not finished.
    """
    failed = [(work, end) for work, end in ended.items() if end.outcome != "finished"]
    if not failed:
        return
    lines = "; ".join(f"{name(work)} {end.outcome} ({end.message})" for work, end in failed)
    raise OfclError(
        f"{len(failed)} of {len(ended)} runs are not finished: {lines}. The same command tries "
        "them again; the others are done"
    )
