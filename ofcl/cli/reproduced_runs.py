"""The runs of `ofcl reproduce`: those that are missing are made, one by one or several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from ofcl.assembly.dealing import Loader
from ofcl.cli.progress import track
from ofcl.cli.run_loop import complete
from ofcl.cli.several_runs import check_jobs, make_runs
from ofcl.cli.terminal import out_console, say, warn
from ofcl.errors import OfclError
from ofcl.jobs.work import Ended, Work
from ofcl.reproduce import plan, timing


def tell_plan(jobs: Sequence[plan.Job], missing: Sequence[plan.Job]) -> None:
    """Prints the missing runs, and how long they would take on this machine.

    Args:
        jobs: All runs of the table.
        missing: Those of them that are not finished.
    """
    for job in missing:
        out_console.print(str(job.directory.path), highlight=False, soft_wrap=True, markup=False)
    seconds = timing.estimate(missing, say) if missing else 0.0
    hours, minutes = divmod(round(seconds / 60), 60)
    out_console.print(
        f"{len(jobs)} runs, {len(missing)} of them missing: about {hours} h {minutes} min here",
        highlight=False,
    )


def with_data(missing: Iterable[plan.Job], load: Loader) -> list[plan.Job]:
    """Loads each dataset once, and leaves out the runs whose dataset cannot be loaded.

    What must be downloaded or embedded is then there for all workers.

    Args:
        missing: The runs that are not finished, dataset by dataset.
        load: Loads datasets.
    """
    kept = []
    for _, of_it in groupby(missing, key=lambda job: job.settings.dataset):
        some = list(of_it)
        try:
            load(some[0].settings)
        except OfclError as error:
            warn(f"{len(some)} runs are left out: {error}")
        else:
            kept += some
    return kept


def make_one_by_one(missing: Sequence[plan.Job], quiet: bool) -> None:
    """Makes the missing runs in this process, dataset by dataset.

    Args:
        missing: The runs that are not finished.
        quiet: Whether to show no progress.
    """
    load = Loader(track, say)
    for dataset, of_it in groupby(missing, key=lambda job: job.settings.dataset):
        some = with_data(of_it, load)
        for n, job in enumerate(some, 1):
            if not quiet:
                say(f"{dataset}, run {n} of {len(some)}: {job.cell.row}, seed {job.settings.seed}")
            complete(job.directory.path, job.settings, load, quiet)


def make_at_once(
    missing: Sequence[plan.Job],
    jobs: int,
    quiet: bool,
    wanted: Callable[[Work, Mapping[Work, Ended]], bool] = lambda work, ended: True,
) -> dict[Work, Ended]:
    """Makes the missing runs in worker processes; one that fails does not end the others.

    Args:
        missing: The runs that are not finished.
        jobs: How many are made at once.
        quiet: Whether to show no progress.
        wanted: Tells, when a run's turn comes, whether it is still to be made.

    Returns:
        How each run has ended.
    """
    if missing:
        check_jobs(missing[0].settings, jobs)
    kept = with_data(missing, Loader(track, say))
    works = [Work(job.directory.path, job.settings) for job in kept]
    return make_runs(works, jobs, quiet, name_of, wanted) if works else {}


def name_of(work: Work) -> str:
    """Names a run by its folders: the settings that differ, and the seed.

    Args:
        work: The run.
    """
    return "/".join(work.path.parts[-3:])
