"""Experiments side by side: the paper's Figure 3."""

from __future__ import annotations

from collections.abc import Sequence

from ofcl.evaluation import metrics
from ofcl.report import figures
from ofcl.report.drawn import Drawn, Numbers, numbers_of_curves
from ofcl.report.formats import number
from ofcl.report.grouping import experiment_key
from ofcl.report.recorded_runs import Experiment
from ofcl.report.series import Curve
from ofcl.report.spread import over_seeds


def side_by_side(experiments: Sequence[Experiment]) -> list[Drawn]:
    """Draws Figure 3 of the paper: accuracy per task, and forgetting relative to ER.

    Args:
        experiments: The experiments.

    Returns:
        The figures; none for a single experiment, and the second only if one of them is ER.
    """
    if len(experiments) < 2:
        return []
    ends = [_accuracy_at_the_end(experiment) for experiment in experiments]
    drawn = [Drawn(
        "accuracy-per-task",
        "Accuracy on each task at the end, mean of clients and seeds (the paper's Figure 3, left)",
        figures.lines(ends, x="task", y="accuracy, %", top=100, whole=True),
        numbers_of_curves("task", ends),
    )]  # fmt: skip
    improvements = {
        e.name: value
        for e in experiments
        if (value := forgetting_against_er(e, experiments)) is not None
    }
    if improvements:
        drawn.append(Drawn(
            "forgetting-against-er",
            "How much less is forgotten than with ER, % of ER's forgetting (Figure 3, right)",
            figures.named_bars(improvements, y="less forgetting than ER, %"),
            Numbers(["experiment", "less forgetting than ER, %"],
                    [[name, number(value)] for name, value in improvements.items()]),
        ))  # fmt: skip
    return drawn


def _accuracy_at_the_end(experiment: Experiment) -> Curve:
    """Averages the accuracy on each task at the end, over the clients of finished runs."""
    finished = [run for run in experiment.runs if run.finished]
    matrices = [matrix for run in finished for matrix in run.result.accuracy]
    longest = max((len(matrix) for matrix in matrices), default=0)
    rows = [matrix[-1] for matrix in matrices if len(matrix) == longest]
    means = [metrics.mean(cells) for cells in zip(*rows, strict=True)]
    known = [(float(task), a) for task, a in enumerate(means, 1) if a is not None]
    return Curve(experiment.name, [task for task, _ in known], [a for _, a in known])


def forgetting_against_er(experiment: Experiment, others: Sequence[Experiment]) -> float | None:
    """Computes how much smaller an experiment's F is than that of ER, in percent of ER's.

    Args:
        experiment: The experiment.
        others: All experiments, among which ER with the same other settings is looked for.

    Returns:
        The percentage; None if the experiment is ER, if ER is not among the others, if an F is
        unknown, or if ER forgets nothing.
    """
    alike = [
        other
        for other in others
        if other is not experiment and _differ_in_method_alone(experiment, other)
    ]
    er = next((other for other in alike if other.runs[0].settings.method == "er"), None)
    if er is None or experiment.runs[0].settings.method == "er":
        return None
    forgotten, forgotten_by_er = _mean_forgetting(experiment), _mean_forgetting(er)
    if forgotten is None or forgotten_by_er is None or forgotten_by_er <= 0:
        return None
    return 100 * (forgotten_by_er - forgotten) / forgotten_by_er


def _differ_in_method_alone(one: Experiment, other: Experiment) -> bool:
    """Says whether two experiments have the same settings, apart from `method` and `keep`."""
    of_method = {"method": "er", "keep": "bottom"}
    first, second = (e.runs[0].settings.model_copy(update=of_method) for e in (one, other))
    return experiment_key(first) == experiment_key(second)


def _mean_forgetting(experiment: Experiment) -> float | None:
    """Averages F over the finished runs of an experiment; None if there is no F."""
    return over_seeds([run.result.F for run in experiment.runs if run.finished]).mean
