"""What a report is made of: figures and matrices of each run, and of runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ofcl import metrics
from ofcl.comparison import Spread, over_seeds
from ofcl.metrics import Row
from ofcl.report import figures, series
from ofcl.report.reading import Experiment, RunView
from ofcl.report.samples import Remembered, read_memories, uncertainties

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES_AT_MOST = 40  # that a figure tells apart


@dataclass(frozen=True)
class Drawn:
    """A figure and what it shows, in words."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Matrix:
    """Accuracy after each task on each, in percent."""

    caption: str
    rows: list[Row]


@dataclass(frozen=True)
class RunPart:
    """All that is shown of a run."""

    view: RunView
    matrices: list[Matrix]  # the clients' mean, the server's model, each client
    accuracy: list[Drawn]
    memories: list[Remembered]
    memory: list[Drawn]
    communication: list[Drawn]


def run_part(view: RunView, most: int) -> RunPart:
    """Draws a run, with at most so many samples of each memory."""
    memories = read_memories(view, most)
    return RunPart(
        view=view,
        matrices=_matrices(view),
        accuracy=_accuracy(view),
        memories=memories,
        memory=_memory(view, memories),
        communication=_communication(view),
    )


def _matrices(view: RunView) -> list[Matrix]:
    result = view.result
    clients = [Matrix(f"Client {k}", rows) for k, rows in enumerate(result.accuracy)]
    mean = series.mean_matrix(result.accuracy)
    return [Matrix("Mean of the clients", mean),
            Matrix("The server's model", result.global_accuracy), *clients]  # fmt: skip


def _accuracy(view: RunView) -> list[Drawn]:
    mean = series.mean_matrix(view.result.accuracy)
    learned = view.of("learned")
    drawn = []
    if any(value is not None for row in mean for value in row):
        over_time = series.accuracy_over_time(mean)
        drawn.append(Drawn(
            "accuracy-over-time",
            "Accuracy on each task after it was learned and after each later one, mean of the "
            "clients",
            figures.lines(over_time, x="tasks learned", y="accuracy, %", top=100, whole=True),
        ))  # fmt: skip
    if falls := series.forgetting_by_task(mean):
        drawn.append(Drawn(
            "forgetting",
            "Forgetting of each task: its best accuracy less the last, mean of the clients",
            figures.bars({"forgetting": falls}, x="task", y="forgetting, points"),
        ))  # fmt: skip
    if learned:
        drawn.append(Drawn(
            "along-the-stream",
            "Right predictions on mini-batches just before they are learned; dotted: a task begins",
            figures.lines([series.along_stream(learned)], x="mini-batches of a client",
                          y="accuracy, %", marked=False, starts=series.task_starts(learned),
                          top=100),
        ))  # fmt: skip
    return drawn


def _memory(view: RunView, memories: Sequence[Remembered]) -> list[Drawn]:
    drawn = []
    told = view.of("remembered")
    if told:
        by_task, by_class = (series.composition(told, by) for by in ("task", "class"))
        drawn.append(Drawn(
            "memory-by-task", "Samples in the memories by the task in which they came",
            figures.areas(by_task, {t: f"task {t + 1}" for t in by_task.counts}),
        ))  # fmt: skip
        if len(by_class.counts) <= CLASSES_AT_MOST:
            drawn.append(Drawn(
                "memory-by-class", "Samples in the memories by class",
                figures.areas(by_class, {c: view.labels[c][:18] for c in by_class.counts}),
            ))  # fmt: skip
    if scored := uncertainties(memories):
        drawn.append(Drawn(
            "uncertainty",
            "Uncertainty of the samples that memories hold, and of the last that went (at most "
            "1,000 of a client)",
            figures.histogram(scored, x=f"uncertainty ({view.settings.method.upper()})"),
        ))  # fmt: skip
    return drawn


def _communication(view: RunView) -> list[Drawn]:
    rounds = view.of("round")
    if not rounds:
        return []
    figure = figures.lines(
        series.communication(rounds), x="seconds", y="MB, all clients", marked=False
    )
    return [Drawn("communication", "What clients have sent and received, together", figure)]


def side_by_side(experiments: Sequence[Experiment]) -> list[Drawn]:
    """Figure 3 of the paper: accuracy per task, and forgetting relative to ER."""
    if len(experiments) < 2:
        return []
    ends = [series.Line(e.name, *_at_the_end(e)) for e in experiments]
    drawn = [Drawn(
        "accuracy-per-task",
        "Accuracy on each task at the end, mean of clients and seeds (the paper's Figure 3, left)",
        figures.lines(ends, x="task", y="accuracy, %", top=100, whole=True),
    )]  # fmt: skip
    improvements = {
        e.name: value for e in experiments if (value := forgetting_against_er(e, experiments))
    }
    if improvements:
        drawn.append(Drawn(
            "forgetting-against-er",
            "How much less is forgotten than with ER, % of ER's forgetting (Figure 3, right)",
            figures.named_bars(improvements, y="less forgetting than ER, %"),
        ))  # fmt: skip
    return drawn


def _at_the_end(experiment: Experiment) -> tuple[list[float], list[float]]:
    """The tasks and their accuracy at the end."""
    matrices = [matrix for run in experiment.runs for matrix in run.result.accuracy]
    longest = max((len(matrix) for matrix in matrices), default=0)
    rows = [matrix[-1] for matrix in matrices if len(matrix) == longest]
    means = [metrics.mean(cells) for cells in zip(*rows, strict=True)]
    there = [(float(task + 1), a) for task, a in enumerate(means) if a is not None]
    return [task for task, _ in there], [a for _, a in there]


def forgetting_against_er(experiment: Experiment, others: Sequence[Experiment]) -> float | None:
    """How much smaller its F is than ER's on the same data with the same memory, in % of that."""
    made = experiment.runs[0].settings
    same = ("dataset", "memory", "protocol")
    for other in others:
        theirs = other.runs[0].settings
        if theirs.method == "er" and all(getattr(made, n) == getattr(theirs, n) for n in same):
            ours, er = (_forgetting(e).mean for e in (experiment, other))
            if other is not experiment and ours is not None and er:
                return 100 * (er - ours) / er
    return None


def _forgetting(experiment: Experiment) -> Spread:
    return over_seeds([run.result.F for run in experiment.runs])
