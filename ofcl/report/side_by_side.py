"""Experiments side by side: the paper's Figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ofcl.evaluation import metrics
from ofcl.report import figures
from ofcl.report.drawn import Drawn, Numbers, numbers_of_curves
from ofcl.report.formats import number
from ofcl.report.grouping import experiment_key
from ofcl.report.recorded_runs import Experiment
from ofcl.report.series import Curve
from ofcl.report.spread import over_seeds
from ofcl.settings.schema import Settings

CURVES_AT_MOST = 10  # of which each has a colour and a marker of its own


def side_by_side(experiments: Sequence[Experiment], of: str = "") -> list[Drawn]:
    """Draws Figure 3 of the paper: accuracy per task, and forgetting relative to ER.

    Args:
        experiments: The experiments of one dataset, the best first.
        of: A beginning of the figures' names, where there are several datasets.

    Returns:
        The figures; none unless two experiments have a finished run, and the second only if one of
        them is ER. Of very many experiments, the first figure has the best.
    """
    measured = [e for e in experiments if any(run.finished for run in e.runs)]
    if len(measured) < 2:
        return []
    ends = [_accuracy_at_the_end(experiment) for experiment in measured[:CURVES_AT_MOST]]
    best = f"; the best {len(ends)} of {len(measured)}" if len(ends) < len(measured) else ""
    drawn = [Drawn(
        f"{of}accuracy-per-task",
        "Accuracy on each task at the end, mean of clients and seeds (the paper's Figure 3, left)"
        + best,
        figures.lines(ends, x="task", y="accuracy, %", top=100, whole=True),
        numbers_of_curves("task", ends),
    )]  # fmt: skip
    improvements = {
        e.named.within: value
        for e in measured
        if (value := forgetting_against_er(e, measured)) is not None
    }
    if improvements:
        drawn.append(Drawn(
            f"{of}forgetting-against-er",
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
    return Curve(experiment.named.within, [task for task, _ in known], [a for _, a in known])


def forgetting_against_er(experiment: Experiment, others: Sequence[Experiment]) -> float | None:
    """Computes how much smaller an experiment's F is than that of ER, in percent of ER's.

    Args:
        experiment: The experiment.
        others: All experiments, among which ER with the same other settings is looked for.

    Returns:
        The percentage; None if the experiment is ER, if ER is not among the others, if an F is
        unknown, or if ER forgets nothing.
    """
    if experiment.runs[0].settings.method == "er":
        return None
    own = _key_beside_method(experiment.runs[0].settings)
    er = next((other for other in others if other.runs[0].settings.method == "er"
               and _key_beside_method(other.runs[0].settings) == own), None)  # fmt: skip
    if er is None:
        return None
    forgotten, forgotten_by_er = _mean_forgetting(experiment), _mean_forgetting(er)
    if forgotten is None or forgotten_by_er is None or forgotten_by_er <= 0:
        return None
    return 100 * (forgotten_by_er - forgotten) / forgotten_by_er


@lru_cache(maxsize=1024)
def _key_beside_method(settings: Settings) -> str:
    """Returns a text that experiments share which differ in `method` and `keep` alone."""
    return experiment_key(settings.model_copy(update={"method": "er", "keep": "bottom"}))


def _mean_forgetting(experiment: Experiment) -> float | None:
    """Averages F over the finished runs of an experiment; None if there is no F."""
    return over_seeds([run.result.F for run in experiment.runs if run.finished]).mean
