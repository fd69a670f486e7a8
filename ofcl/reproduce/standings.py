"""The results of a contest: what each method reaches, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from ofcl.evaluation import metrics
from ofcl.evaluation.results import Result
from ofcl.report.series import right_after
from ofcl.report.significance import Difference, paired_difference
from ofcl.report.spread import Spread, over_seeds
from ofcl.reproduce.field import Contest
from ofcl.reproduce.paper import Cell
from ofcl.reproduce.ranking import Rank, ranks
from ofcl.storage.memories import remembered_bytes
from ofcl.storage.run_directory import RunDirectory


@dataclass(frozen=True)
class Standing:
    """A method in a contest, with the results of its finished runs.

    Args:
        cell: The method, and the figures that its authors or the paper have published.
        results: The results by seed; at least one.
        memory_bytes: The bytes of a client's memory at the end, on average (`remembered_bytes`);
            None: they could not be read.
        rank: Its rank by A; None: it shares no seed with the others.
        less_best: Its A less the best method's; None: it is the best, or shares too few seeds.
    """

    cell: Cell
    results: dict[int, Result]
    memory_bytes: float | None
    rank: Rank | None = None
    less_best: Difference | None = None

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.cell.row

    def over_seeds(self, name: str) -> Spread:
        """Takes the mean and the deviation over seeds of a number of the results.

        Args:
            name: A field of `Result`; `plasticity`: the mean accuracy on a task right after it was
                learned; `bytes`: sent and received by all clients.
        """
        return over_seeds([_number(result, name) for result in self.results.values()])

    def A_by_seed(self) -> dict[int, list[float]]:
        """Returns A of each client, by seed."""
        found = {}
        for seed, result in self.results.items():
            rows = [metrics.last_accuracy(metrics.to_its_end(m)) for m in result.accuracy]
            found[seed] = [a for a in rows if a is not None]
        return found


def _number(result: Result, name: str) -> float | None:
    """Returns a number of a result (`Standing.over_seeds`)."""
    if name == "plasticity":
        return metrics.mean(right_after(result.accuracy))
    if name == "bytes":
        return float(result.bytes_sent + result.bytes_received)
    value: float | None = getattr(result, name)
    return value


@dataclass(frozen=True)
class Table:
    """The standings of a contest.

    Args:
        title: The name of the contest.
        dataset: The name of the dataset.
        protocol: The name of the protocol.
        standings: The methods with finished runs, best A first.
        does_not_apply: Why methods refuse the contest, by method.
        missing: The methods that have no finished run, and refuse nothing.
    """

    title: str
    dataset: str
    protocol: str
    standings: list[Standing]
    does_not_apply: dict[str, str]
    missing: list[str]

    def values(self) -> dict[str, dict[int, float]]:
        """Returns A by method and seed."""
        return {
            s.method: {seed: r.A for seed, r in s.results.items() if r.A is not None}
            for s in self.standings
        }


def make_table(contest: Contest, refusals: Mapping[str, str]) -> Table:
    """Reads the finished runs of a contest, and ranks its methods.

    Args:
        contest: The contest.
        refusals: Why methods cannot take part, by method.
    """
    standings, missing = [], []
    for method, of_method in groupby(contest.jobs, key=lambda job: job.cell.row):
        jobs = list(of_method)
        results = {job.settings.seed: job.result for job in jobs}
        finished = {seed: result for seed, result in results.items() if result is not None}
        if finished:
            directory = next(job.directory for job in jobs if job.settings.seed in finished)
            standings.append(Standing(jobs[0].cell, finished, _remembered(directory)))
        elif method not in refusals:
            missing.append(method)
    standings.sort(key=lambda standing: -(standing.over_seeds("A").mean or 0.0))
    table = Table(
        contest.title, contest.dataset, contest.protocol, standings, dict(refusals), missing
    )
    placed = ranks([table.values()]) if standings else {}
    ranked = [
        Standing(s.cell, s.results, s.memory_bytes, placed.get(s.method),
                 paired_difference(s.A_by_seed(), standings[0].A_by_seed()) if n else None)
        for n, s in enumerate(standings)
    ]  # fmt: skip
    return Table(table.title, table.dataset, table.protocol, ranked, table.does_not_apply, missing)


def _remembered(directory: RunDirectory) -> float | None:
    """Reads how many bytes a client of a run remembers, on average; None: nothing is known."""
    return metrics.mean(remembered_bytes(directory))
