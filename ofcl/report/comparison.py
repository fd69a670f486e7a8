"""Comparing finished runs: A and F over seeds, one line for each experiment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ofcl.evaluation import metrics
from ofcl.evaluation.results import Result
from ofcl.report.grouping import distinguishing_settings, experiment_key, shown_value
from ofcl.report.joint_gap import JointGap, gap_to_joint, joint_key
from ofcl.report.naming import ExperimentName, name_experiments
from ofcl.report.recorded_runs import find_runs
from ofcl.report.significance import Difference, paired_difference
from ofcl.report.spread import Spread, over_clients, over_seeds
from ofcl.settings.schema import Settings

FinishedRun = tuple[Settings, Result]

_MEASURES = {"A": metrics.last_accuracy, "F": metrics.forgetting}


@dataclass(frozen=True)
class ExperimentLine:
    """One experiment in a comparison: the settings that tell it from the others, and its results.

    A and F are means of the clients' models, `global_…` of the server's model. The ± of `A` and `F`
    is taken over seeds or over clients, as the setting `spread` says; `…_over_seeds` and
    `…_over_clients` have both.
    """

    dataset: str  # its name: the last part of a path
    name: str  # that no other experiment of the dataset has
    settings: dict[str, Any]
    seeds: tuple[int, ...]
    A: Spread
    F: Spread
    global_A: Spread
    global_F: Spread
    A_by_seed: dict[int, list[float]]  # of each client
    A_over_seeds: Spread
    F_over_seeds: Spread
    A_over_clients: Spread  # of the clients' means over seeds
    F_over_clients: Spread
    A_less_best: Difference | None = None  # within the dataset; None: too few seeds in common
    below_joint: JointGap | None = None  # None: no joint training with the same other settings
    left_out: int = 0  # runs of a seed that another run has too, with another result


def compare(paths: Iterable[str | Path]) -> tuple[list[ExperimentLine], list[Path]]:
    """Compares the finished runs at paths and below them.

    Args:
        paths: Run directories, or folders of them.

    Returns:
        One line for each experiment, dataset by dataset, best A first; and the paths of runs that
        are not finished.
    """
    finished, unfinished = [], []
    for run in find_runs(paths):
        result = run.result()
        if result is None:
            unfinished.append(run.path)
        else:
            finished.append((run.settings(), result))
    return compare_results(finished), unfinished


def compare_results(
    runs: Iterable[FinishedRun], names: Mapping[str, ExperimentName] | None = None
) -> list[ExperimentLine]:
    """Compares experiments by the results of their runs, those of a dataset with each other.

    Args:
        runs: The settings and the result of each run.
        names: The names of the experiments by their `experiment_key`; None: they are named here.

    Returns:
        One line for each experiment, dataset by dataset, best A first.
    """
    groups: dict[str, list[FinishedRun]] = defaultdict(list)
    for settings, result in runs:
        groups[experiment_key(settings)].append((settings, result))
    firsts = [group[0][0] for group in groups.values()]
    names = names or name_experiments(firsts)
    shown = distinguishing_settings(firsts)
    by_key = {key: _line(group, shown, names[key]) for key, group in groups.items()}
    lines = [
        _beside_joint(by_key[key], by_key.get(joint_key(group[0][0]) or ""))
        for key, group in groups.items()
    ]
    return [line for block in by_dataset(lines) for line in _judged(block)]


def by_dataset(lines: Iterable[ExperimentLine]) -> list[list[ExperimentLine]]:
    """Groups experiments by their dataset.

    Args:
        lines: The experiments.

    Returns:
        The experiments of each dataset in the given order; the datasets by name.
    """
    blocks: dict[str, list[ExperimentLine]] = defaultdict(list)
    for line in lines:
        blocks[line.dataset].append(line)
    return [blocks[name] for name in sorted(blocks)]


def _judged(block: Sequence[ExperimentLine]) -> list[ExperimentLine]:
    """Sorts the experiments of a dataset by A, and adds the differences to the best one."""
    lines = sorted(block, key=lambda line: -(line.A.mean or 0))
    competing = [line for line in lines if not _is_bound(line)] or lines
    return [_against(competing[0], line) for line in lines]


def _beside_joint(line: ExperimentLine, joint: ExperimentLine | None) -> ExperimentLine:
    """Returns the line with its gap to joint training; unchanged if `joint` is None.

    Args:
        line: The experiment.
        joint: Joint training with the same other settings; None: there is no such run.
    """
    if joint is None:
        return line
    return replace(line, below_joint=gap_to_joint(line.A_by_seed, joint.A_by_seed))


def _is_bound(line: ExperimentLine) -> bool:
    """Says whether an experiment is joint training, the bound for the others in its comparison."""
    return bool(line.settings.get("joint"))


def _against(best: ExperimentLine, line: ExperimentLine) -> ExperimentLine:
    """Returns the line with the difference of its A to that of the best experiment.

    The best itself, and joint training compared with another best, come back unchanged.

    Args:
        best: The experiment with the largest A, joint training left aside.
        line: The experiment to compare with it.
    """
    if line is best or (_is_bound(line) and not _is_bound(best)):
        return line
    return replace(line, A_less_best=paired_difference(line.A_by_seed, best.A_by_seed))


def _line(group: list[FinishedRun], shown: list[str], name: ExperimentName) -> ExperimentLine:
    """Sums up the runs of one experiment.

    Args:
        group: The settings and results of the experiment's runs.
        shown: The names of the settings to show.
        name: The experiment's name.
    """
    runs = _one_of_each_seed(group)
    settings = runs[0][0]
    results = [result for _, result in runs]

    def clients(measure: str) -> Spread:
        """Takes the mean of A or F, and its spread over clients."""
        return over_clients([_of_each_client(measure, result) for result in results])

    def seeds(measure: str) -> Spread:
        """Takes the mean of a number of the results, and its spread over seeds."""
        return over_seeds([getattr(result, measure) for result in results])

    chosen = clients if settings.spread == "clients" else seeds
    return ExperimentLine(
        dataset=name.dataset,
        name=name.within,
        settings={name: shown_value(settings, name) for name in shown},
        seeds=tuple(sorted(s.seed for s, _ in runs)),
        A=chosen("A"),
        F=chosen("F"),
        global_A=seeds("global_A"),
        global_F=seeds("global_F"),
        A_by_seed={
            s.seed: [a for a in _of_each_client("A", result) if a is not None] for s, result in runs
        },
        A_over_seeds=seeds("A"),
        F_over_seeds=seeds("F"),
        A_over_clients=clients("A"),
        F_over_clients=clients("F"),
        left_out=_count_contradicting(group),
    )


def _of_each_client(name: str, result: Result) -> list[float | None]:
    """Computes A or F of each client of a run; None where it is not defined.

    Args:
        name: `A` or `F`.
        result: The result of the run.
    """
    return [_MEASURES[name](metrics.to_its_end(matrix)) for matrix in result.accuracy]


def _one_of_each_seed(runs: list[FinishedRun]) -> list[FinishedRun]:
    """Keeps the last run of each seed: the same result twice would make the spread too small."""
    return list({settings.seed: (settings, result) for settings, result in runs}.values())


def _count_contradicting(runs: list[FinishedRun]) -> int:
    """Counts the runs whose result differs from that of the kept run with the same seed.

    The cause may be other data with the same name, or a GPU that has rounded otherwise.

    Args:
        runs: All runs of an experiment.
    """
    kept = {settings.seed: result for settings, result in _one_of_each_seed(runs)}
    contradicting = 0
    for settings, result in runs:
        same_seed = kept[settings.seed]
        contradicting += same_seed != replace(result, seconds=same_seed.seconds)
    return contradicting
