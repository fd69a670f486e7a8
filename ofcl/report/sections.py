"""The sections of a run on the page: its accuracy, its memories, its communication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ofcl.evaluation.metrics import Row, mean
from ofcl.report import figures, series
from ofcl.report.confusions import ConfusionPart, confusion_part
from ofcl.report.drawn import (
    Drawn,
    Numbers,
    numbers_of_composition,
    numbers_of_curves,
    numbers_of_values,
)
from ofcl.report.formats import number, short
from ofcl.report.memory_samples import ShownMemory, uncertainties, view_memories
from ofcl.report.recorded_runs import RunView

CLASSES_AT_MOST = 18  # that a figure tells apart


@dataclass(frozen=True)
class Matrix:
    """A table of accuracies in percent: a row after each task, a column for each task tested.

    With joint training there is one row, after all tasks.
    """

    caption: str
    rows: list[Row]

    @property
    def joint(self) -> bool:
        """Whether the matrix is of joint training: it has fewer rows than columns."""
        return bool(self.rows) and len(self.rows) < len(self.rows[0])


@dataclass(frozen=True)
class RunPart:
    """Everything that the page shows of a run."""

    name: str  # that no other run has, for addresses and names of files
    view: RunView
    drawn: bool  # whether it is shown with figures and memories
    notes: list[str]  # about files that could not be read
    matrices: list[Matrix]  # the clients' mean, the server's model, each client
    right_after: float | None  # accuracy on a task when it has just been learned, mean
    accuracy: list[Drawn]
    confusions: ConfusionPart | None
    memories: list[ShownMemory]
    memory: list[Drawn]
    communication: list[Drawn]


def run_part(name: str, view: RunView, most: int, drawn: bool = True) -> RunPart:
    """Makes everything that the page shows of a run: tables, figures, memories.

    Args:
        name: The run's name on the page.
        view: The run.
        most: How many samples of each memory are shown, at most.
        drawn: Whether it is shown with figures, memories and the matrices of each client.
    """
    notes: list[str] = []
    memories = view_memories(view, most, notes.append) if drawn else []
    return RunPart(
        name=name,
        drawn=drawn,
        notes=notes,
        view=view,
        matrices=_matrices(view) if drawn else _matrices(view)[:2],
        right_after=None if view.settings.joint else mean(series.right_after(view.result.accuracy)),
        accuracy=_accuracy(view) if drawn else [],
        confusions=confusion_part(view) if drawn else None,
        memories=memories,
        memory=_memory(view, memories) if drawn else [],
        communication=_communication(view) if drawn else [],
    )


def _matrices(view: RunView) -> list[Matrix]:
    """Returns the accuracy matrices: the clients' mean, the server's model, each client."""
    result = view.result
    clients = [Matrix(f"Client {k}", rows) for k, rows in enumerate(result.accuracy)]
    of_all = series.mean_matrix(result.accuracy)
    return [Matrix("Mean of the clients", of_all),
            Matrix("The server's model", result.global_accuracy), *clients]  # fmt: skip


def _accuracy(view: RunView) -> list[Drawn]:
    """Draws the figures about accuracy and forgetting that the run has numbers for."""
    matrix = series.mean_matrix(view.result.accuracy)
    learned = view.events_of("learned")
    drawn = [*_learned_and_kept(view)]
    if not view.settings.joint and any(value is not None for row in matrix for value in row):
        over_time = series.accuracy_over_time(matrix)
        drawn.append(Drawn(
            "accuracy-over-time",
            "Accuracy on each task after it was learned and after each later one, mean of the "
            "clients",
            figures.lines(over_time, x="tasks learned", y="accuracy, %", top=100, whole=True),
            numbers_of_curves("tasks learned", over_time),
        ))  # fmt: skip
    if falls := series.forgetting_by_task(view.result.accuracy):
        drawn.append(Drawn(
            "forgetting",
            "Forgetting of each task: its best accuracy less the last, mean of the clients",
            figures.bars({"forgetting": falls}, x="task", y="forgetting, points"),
            Numbers(["task", "forgetting"],
                    [[str(task), number(fall)] for task, fall in enumerate(falls, 1)]),
        ))  # fmt: skip
    if learned:
        along = [series.along_stream(learned)]
        drawn.append(Drawn(
            "along-the-stream",
            "Right predictions on mini-batches just before they are learned; dotted: a task begins",
            figures.lines(along, x="mini-batches of a client", y="accuracy, %", marked=False,
                          starts=series.task_starts(learned), top=100),
            numbers_of_curves("mini-batches", along),
        ))  # fmt: skip
    return drawn


def _learned_and_kept(view: RunView) -> list[Drawn]:
    """Draws the accuracy on each task right after it was learned and at the end, if it is known."""
    matrices = view.result.accuracy
    at_end = series.at_the_end(matrices)
    if all(value is None for value in at_end):
        return []
    bars = {"at the end": at_end}
    caption = "Accuracy on each task at the end, after all came as one, mean of the clients"
    if not view.settings.joint:
        bars = {"right after it": series.right_after(matrices), **bars}
        caption = (
            "Accuracy on each task right after it was learned (plasticity) and at the end, mean of "
            "the clients"
        )
    rows = [
        [str(task), *map(number, values)]
        for task, values in enumerate(zip(*bars.values(), strict=True), 1)
    ]
    figure = figures.bars(bars, x="task", y="accuracy, %")
    return [Drawn("learned-and-kept", caption, figure, Numbers(["task", *bars], rows))]


def _memory(view: RunView, memories: Sequence[ShownMemory]) -> list[Drawn]:
    """Draws how the memories were composed over time, and how uncertain their samples are.

    Args:
        view: The run; without events `remembered`, there are no figures of the composition.
        memories: The clients' memories; without uncertainties, there is no figure of them.
    """
    drawn = []
    events = view.events_of("remembered")
    if events:
        by_task, by_class = (series.composition(events, by) for by in ("task", "class"))
        tasks = {t: f"task {t + 1}" for t in by_task.counts}
        drawn.append(Drawn(
            "memory-by-task", "Samples in the memories by the task in which they came",
            figures.areas(by_task, tasks), numbers_of_composition(by_task, tasks),
        ))  # fmt: skip
        largest, others = series.largest(by_class, CLASSES_AT_MOST)
        labels = {c: view.labels[c] if c >= 0 else f"{others} others" for c in largest.counts}
        drawn.append(Drawn(
            "memory-by-class", "Samples in the memories by class",
            figures.areas(largest, {c: short(label) for c, label in labels.items()}),
            numbers_of_composition(largest, labels),
        ))  # fmt: skip
    if scored := uncertainties(memories):
        drawn.append(Drawn(
            "uncertainty",
            "Uncertainty of the samples that memories hold, and of the last that went (at most "
            "1,000 of a client)",
            figures.histogram(scored, x=f"uncertainty ({view.settings.method.upper()})"),
            numbers_of_values(scored),
        ))  # fmt: skip
    return drawn


def _communication(view: RunView) -> list[Drawn]:
    """Draws the bytes that clients have sent and received; no figure if there was no round."""
    rounds = view.events_of("round")
    if not rounds:
        return []
    curves = series.communication([*rounds, *view.events_of("taskended")])
    figure = figures.lines(curves, x="seconds", y="MB, all clients", marked=False)
    numbers = numbers_of_curves("seconds", series.thinned(curves))
    caption = "What clients have sent and received, together, in MB"
    return [Drawn("communication", caption, figure, numbers)]
