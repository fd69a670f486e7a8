"""Evaluation of a model: on labelled data, or on the samples that its run was tested on."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ofcl.bundle.trained_model import Answers, TrainedModel, joined_answers
from ofcl.compute.batching import forward_size
from ofcl.data.options import Damage, OnBad, Progress, no_progress
from ofcl.inference.answering import Asked, answer_rows, prepare_lots
from ofcl.inference.labelled_data import Labelled
from ofcl.inference.measures import Evaluation, evaluate, hits_of_tasks, rows_by_task
from ofcl.inference.own_test import OwnTest, without_others


def evaluate_data(
    model: TrainedModel,
    data: Labelled,
    *,
    measure: bool = True,
    on_bad: OnBad = "stop",
    progress: Progress = no_progress,
) -> Evaluation:
    """Evaluates a model on labelled samples. Samples with a label that it does not know are counted
    and left out.

    Args:
        model: The model.
        data: The samples.
        measure: Whether uncertainty is measured too.
        on_bad: Whether a sample that cannot be read is an error, or is left out.
        progress: Shows how far it is.
    """
    answers, classes, damage = answer_labelled(model, data, measure, on_bad, progress)
    learned = model.description.learned.tasks
    place = {label: c for c, label in enumerate(model.labels)}
    tasks = [[place[label] for label in task if label in place] for task in learned]
    hits = hits_of_tasks(classes, answers.classes, [rows_by_task(classes, tasks)]) if tasks else []
    unknown = dict(Counter(label for label in data.labels if label not in place))
    return evaluate(data.name, model.labels, answers, classes, hits, unknown=unknown,
                    left_out=len(damage.problems))  # fmt: skip


def answer_labelled(
    model: TrainedModel, data: Labelled, measure: bool, on_bad: OnBad, progress: Progress
) -> tuple[Answers, np.ndarray, Damage]:
    """Answers the labelled samples whose label a model knows.

    Args:
        model: The model.
        data: The samples.
        measure: Whether uncertainty is measured too.
        on_bad: Whether a sample that cannot be read is an error, or is left out.
        progress: Shows how far it is.

    Returns:
        The answers, the right class of each, and the samples that could not be read.
    """
    place = {label: c for c, label in enumerate(model.labels)}
    known = [row for row, label in enumerate(data.labels) if label in place]
    chosen = data.only(known)
    damage = Damage(on_bad)
    lots = chosen.lots(forward_size(model.device), damage)
    parts: list[Answers] = []
    rows: list[int] = []
    for ready in prepare_lots(model, progress(lots, "evaluating"), damage):
        answers, _ = answer_rows(model, ready, Asked(measure=measure))
        if len(ready.lot.inputs):
            parts.append(answers)
            rows += ready.lot.inputs
    classes = np.array([place[chosen.labels[row]] for row in rows], dtype=np.int64)
    return joined_answers(parts, len(model.labels)), classes, damage


def evaluate_own(
    model: TrainedModel, test: OwnTest, *, measure: bool = True, progress: Progress = no_progress
) -> Evaluation:
    """Evaluates a model on the samples that its run was tested on.

    Args:
        model: The model.
        test: The test samples of the run.
        measure: Whether uncertainty is measured too.
        progress: Shows how far it is.
    """
    used, left = without_others(test)
    size = forward_size(model.device)
    pieces = [used[start : start + size] for start in range(0, len(used), size)]
    parts = [
        model.answer_prepared(test.inputs(rows).to(model.device), measure=measure)
        for rows in progress(pieces, "evaluating")
    ]
    answers = joined_answers(parts, len(model.labels))
    hits = hits_of_tasks(left.classes, answers.classes, left.rows_of_clients)
    return evaluate(test.name, model.labels, answers, left.classes, hits, unknown=test.unknown)
