"""What a report is made of: figures and matrices of each run, and of runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ofcl.evaluation import metrics
from ofcl.evaluation.metrics import Row
from ofcl.report import figures, series
from ofcl.report.comparison import Spread, over_seeds
from ofcl.report.comparison import experiment as comparable
from ofcl.report.memory_samples import ShownMemory, uncertainties, view_memories
from ofcl.report.recorded_runs import Experiment, RunView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASSES_AT_MOST = 18  # that a figure tells apart
LETTERS = 18  # of a name in a figure


def short(name: str) -> str:
    """A name that fits beside a figure; its end often says what its beginning does not."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 8]}…{name[-7:]}"


class Numbers(NamedTuple):
    """What a figure shows, as a table."""

    columns: list[str]
    rows: list[list[str]]


def _of_curves(x: str, curves: Sequence[series.Line]) -> Numbers:
    values = [dict(zip(curve.x, curve.y, strict=True)) for curve in curves]
    places = sorted({place for of_curve in values for place in of_curve})
    rows = [[f"{p:g}", *(_number(v.get(p)) for v in values)] for p in places]
    return Numbers([x, *(curve.name for curve in curves)], rows)


def _of_composition(held: series.Composition, names: Mapping[int, str]) -> Numbers:
    counts = zip(*held.counts.values(), strict=True)
    rows = [[str(b), *(f"{n:g}" for n in row)] for b, row in zip(held.batches, counts, strict=True)]
    return Numbers(["mini-batches", *(names[kind] for kind in held.counts)], rows)


def _of_values(values: Mapping[str, Sequence[float]]) -> Numbers:
    at = (0.1, 0.5, 0.9)
    rows = [[name, str(len(some)), *(f"{q:.3g}" for q in np.quantile(some, at))]
            for name, some in values.items() if len(some)]  # fmt: skip
    return Numbers(["samples", "number", "10 % are below", "median", "90 % are below"], rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


@dataclass(frozen=True)
class Drawn:
    """A figure and what it shows, in words."""

    name: str
    caption: str
    figure: Figure
    numbers: Numbers  # for those who cannot see it


@dataclass(frozen=True)
class Matrix:
    """Accuracy after each task on each, in percent."""

    caption: str
    rows: list[Row]


@dataclass(frozen=True)
class RunPart:
    """All that is shown of a run."""

    name: str  # of its own, as part of addresses and of files' names
    view: RunView
    notes: list[str]  # what could not be read
    matrices: list[Matrix]  # the clients' mean, the server's model, each client
    accuracy: list[Drawn]
    memories: list[ShownMemory]
    memory: list[Drawn]
    communication: list[Drawn]


def run_part(name: str, view: RunView, most: int) -> RunPart:
    """Draws a run, with at most so many samples of each memory."""
    notes: list[str] = []
    memories = view_memories(view, most, notes.append)
    return RunPart(
        name=name,
        notes=notes,
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
            _of_curves("tasks learned", over_time),
        ))  # fmt: skip
    if falls := series.forgetting_by_task(view.result.accuracy):
        drawn.append(Drawn(
            "forgetting",
            "Forgetting of each task: its best accuracy less the last, mean of the clients",
            figures.bars({"forgetting": falls}, x="task", y="forgetting, points"),
            Numbers(["task", "forgetting"],
                    [[str(task), _number(fall)] for task, fall in enumerate(falls, 1)]),
        ))  # fmt: skip
    if learned:
        along = [series.along_stream(learned)]
        drawn.append(Drawn(
            "along-the-stream",
            "Right predictions on mini-batches just before they are learned; dotted: a task begins",
            figures.lines(along, x="mini-batches of a client", y="accuracy, %", marked=False,
                          starts=series.task_starts(learned), top=100),
            _of_curves("mini-batches", along),
        ))  # fmt: skip
    return drawn


def _memory(view: RunView, memories: Sequence[ShownMemory]) -> list[Drawn]:
    drawn = []
    told = view.of("remembered")
    if told:
        by_task, by_class = (series.composition(told, by) for by in ("task", "class"))
        tasks = {t: f"task {t + 1}" for t in by_task.counts}
        drawn.append(Drawn(
            "memory-by-task", "Samples in the memories by the task in which they came",
            figures.areas(by_task, tasks), _of_composition(by_task, tasks),
        ))  # fmt: skip
        largest, others = series.largest(by_class, CLASSES_AT_MOST)
        kept = {c: view.labels[c] if c >= 0 else f"{others} others" for c in largest.counts}
        drawn.append(Drawn(
            "memory-by-class", "Samples in the memories by class",
            figures.areas(largest, {c: short(name) for c, name in kept.items()}),
            _of_composition(largest, kept),
        ))  # fmt: skip
    if scored := uncertainties(memories):
        drawn.append(Drawn(
            "uncertainty",
            "Uncertainty of the samples that memories hold, and of the last that went (at most "
            "1,000 of a client)",
            figures.histogram(scored, x=f"uncertainty ({view.settings.method.upper()})"),
            _of_values(scored),
        ))  # fmt: skip
    return drawn


def _communication(view: RunView) -> list[Drawn]:
    rounds = view.of("round")
    if not rounds:
        return []
    travelled = series.communication([*rounds, *view.of("taskended")])
    figure = figures.lines(travelled, x="seconds", y="MB, all clients", marked=False)
    numbers = _of_curves("seconds", series.thinned(travelled))
    caption = "What clients have sent and received, together, in MB"
    return [Drawn("communication", caption, figure, numbers)]


def side_by_side(experiments: Sequence[Experiment]) -> list[Drawn]:
    """Figure 3 of the paper: accuracy per task, and forgetting relative to ER."""
    if len(experiments) < 2:
        return []
    ends = [series.Line(e.name, *_at_the_end(e)) for e in experiments]
    drawn = [Drawn(
        "accuracy-per-task",
        "Accuracy on each task at the end, mean of clients and seeds (the paper's Figure 3, left)",
        figures.lines(ends, x="task", y="accuracy, %", top=100, whole=True),
        _of_curves("task", ends),
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
                    [[name, _number(value)] for name, value in improvements.items()]),
        ))  # fmt: skip
    return drawn


def _at_the_end(experiment: Experiment) -> tuple[list[float], list[float]]:
    """The tasks and their accuracy at the end."""
    finished = [run for run in experiment.runs if run.finished]
    matrices = [matrix for run in finished for matrix in run.result.accuracy]
    longest = max((len(matrix) for matrix in matrices), default=0)
    rows = [matrix[-1] for matrix in matrices if len(matrix) == longest]
    means = [metrics.mean(cells) for cells in zip(*rows, strict=True)]
    there = [(float(task + 1), a) for task, a in enumerate(means) if a is not None]
    return [task for task, _ in there], [a for _, a in there]


def forgetting_against_er(experiment: Experiment, others: Sequence[Experiment]) -> float | None:
    """How much smaller its F is than ER's on the same data with the same memory, in % of that."""
    alike = [
        other for other in others if other is not experiment and _only_method(experiment, other)
    ]
    er = next((other for other in alike if other.runs[0].settings.method == "er"), None)
    if er is None or experiment.runs[0].settings.method == "er":
        return None
    ours, theirs = _forgetting(experiment).mean, _forgetting(er).mean
    return 100 * (theirs - ours) / theirs if ours is not None and theirs and theirs > 0 else None


def _only_method(one: Experiment, other: Experiment) -> bool:
    """Whether two experiments differ in the method alone, and in what it keeps."""
    of_method = {"method": "er", "keep": "bottom"}
    made, theirs = (e.runs[0].settings.model_copy(update=of_method) for e in (one, other))
    return comparable(made) == comparable(theirs)


def _forgetting(experiment: Experiment) -> Spread:
    return over_seeds([run.result.F for run in experiment.runs if run.finished])
