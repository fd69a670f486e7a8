"""Numbers over time, from events and results, for the figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from ofcl.evaluation import metrics
from ofcl.evaluation.metrics import Row

POINTS = 60  # along a stream

PlainEvent = dict[str, Any]
"""An event as it was recorded, with the `seconds` of the run."""


@dataclass(frozen=True)
class Curve:
    """A curve: its name, the places at which it has values, and the values."""

    name: str
    x: list[float]
    y: list[float]


def mean_matrix(matrices: Sequence[Sequence[Row]]) -> list[Row]:
    """Averages the accuracy matrices of all clients, cell by cell, over clients with a value.

    Args:
        matrices: The matrix of each client; None is a cell without a value.

    >>> mean_matrix([[[90.0, None], [40.0, 80.0]], [[70.0, None], [None, 60.0]]])
    [[80.0, None], [40.0, 70.0]]
    """
    return [
        [metrics.mean(cells) for cells in zip(*rows, strict=True)]
        for rows in zip(*matrices, strict=True)
    ]


def accuracy_over_time(matrix: Sequence[Row]) -> list[Curve]:
    """Makes a curve for each task: its accuracy after it was learned and after each later task.

    Args:
        matrix: The accuracy after each task (row) on each task (column).
    """
    curves = []
    for task in range(len(matrix)):
        points = [(t + 1, row[task]) for t, row in enumerate(matrix)]
        known = [(float(t), a) for t, a in points if a is not None]
        curves.append(Curve(f"task {task + 1}", [t for t, _ in known], [a for _, a in known]))
    return curves


def right_after(matrices: Sequence[Sequence[Row]]) -> Row:
    """Averages over clients the accuracy on each task when it has just been learned: plasticity.

    Args:
        matrices: The accuracy matrix of each client.

    >>> right_after([[[90.0, None], [40.0, 80.0]], [[50.0, None], [60.0, 70.0]]])
    [70.0, 75.0]
    """
    return [row[task] for task, row in enumerate(mean_matrix(matrices))]


def at_the_end(matrices: Sequence[Sequence[Row]]) -> Row:
    """Averages over clients the accuracy on each task, in each client's last test.

    Args:
        matrices: The accuracy matrix of each client.

    >>> at_the_end([[[90.0, None], [40.0, 80.0]], [[50.0, None], [None, None]]])
    [45.0, 80.0]
    """
    last = [ended[-1] for matrix in matrices if (ended := metrics.to_its_end(matrix))]
    tasks = max((len(row) for matrix in matrices for row in matrix), default=0)
    return [metrics.mean(row[task] for row in last) for task in range(tasks)]


def forgetting_by_task(matrices: Sequence[Sequence[Row]]) -> Row:
    """Averages over clients how far accuracy on each task but the last has fallen from its best.

    Args:
        matrices: The accuracy matrix of each client; only tasks that it has ended count.

    >>> forgetting_by_task([[[90.0, None], [40.0, 80.0]], [[50.0, None], [60.0, 70.0]]])
    [20.0]
    """
    each = [metrics.falls(metrics.to_its_end(matrix)) for matrix in matrices]
    return [metrics.mean(falls) for falls in zip_longest(*each)]


def along_stream(learned: Iterable[PlainEvent], points: int = POINTS) -> Curve:
    """Computes the accuracy on mini-batches just before they are learned, over all clients.

    Args:
        learned: The events `learned`.
        points: The number of equal parts of the stream for which there is a value, at most.
    """
    batches: Counter[int] = Counter()
    rows = []
    for event in learned:
        batches[event["client"]] += event["batches"]
        rows.append((batches[event["client"]], event["correct"], event["samples"]))
    if not rows:
        return Curve("accuracy", [], [])
    batch, correct, samples = np.array(rows, dtype=float).T
    edges = np.linspace(0, batch.max(), min(points, int(batch.max())) + 1)
    place = np.clip(np.searchsorted(edges, batch, side="left") - 1, 0, len(edges) - 2)
    right, total = (np.bincount(place, weights=w, minlength=len(edges) - 1)
                    for w in (correct, samples))  # fmt: skip
    known = total > 0
    middle = (edges[:-1] + edges[1:]) / 2
    accuracy = 100 * right / total.clip(1)
    return Curve("accuracy", middle[known].tolist(), accuracy[known].tolist())


def task_starts(learned: Iterable[PlainEvent]) -> list[int]:
    """Finds where the second and later tasks of client 0 begin.

    Args:
        learned: The events `learned`.

    Returns:
        For each of these tasks, how many mini-batches the client learned before it.
    """
    starts, batches, task = [], 0, 0
    for event in learned:
        if event["client"] == 0:
            if event["task"] > task:
                task = event["task"]
                starts.append(batches)
            batches += event["batches"]
    return starts


@dataclass(frozen=True)
class Composition:
    """The number of samples of each kind (task or class) in all memories together, over time."""

    batches: list[int]  # mini-batches of a client
    counts: dict[int, list[float]]  # by task, or by class


def composition(remembered: Sequence[PlainEvent], by: str) -> Composition:
    """Counts the samples in the memories of all clients, over time.

    At each time, the last event of each client up to then counts.

    Args:
        remembered: The events `remembered`.
        by: `task` or `class`: the kind of a sample is its task, or its class.
    """
    column = {"task": 0, "class": 1}[by]
    times = sorted({event["batches"] for event in remembered})
    of_clients: dict[int, list[PlainEvent]] = defaultdict(list)
    for event in remembered:
        of_clients[event["client"]].append(event)
    kinds = sorted({row[column] for event in remembered for row in event["held"]})
    counts = {kind: np.zeros(len(times)) for kind in kinds}
    for events in of_clients.values():
        events = sorted(events, key=lambda event: event["batches"])
        last = np.searchsorted([event["batches"] for event in events], times, side="right") - 1
        for kind in kinds:
            samples = [sum(row[2] for row in e["held"] if row[column] == kind) for e in events]
            counts[kind] += np.where(last >= 0, np.array(samples)[last.clip(0)], 0)
    return Composition(times, {kind: values.tolist() for kind, values in counts.items()})


def largest(composition: Composition, most: int) -> tuple[Composition, int]:
    """Keeps the kinds with most samples, and adds up the others as the kind −1.

    Args:
        composition: The number of samples of each kind (task or class) over time.
        most: How many kinds are kept, at most.

    Returns:
        The new numbers, and how many kinds were added up.

    >>> some, others = largest(Composition([1], {0: [3.0], 1: [1.0], 2: [2.0]}), most=1)
    >>> some.counts, others
    ({0: [3.0], -1: [3.0]}, 2)
    """
    counts = composition.counts
    order = sorted(counts, key=lambda kind: -sum(counts[kind]))
    kept, rest = sorted(order[:most]), order[most:]
    chosen = {kind: counts[kind] for kind in kept}
    if rest:
        chosen[-1] = np.sum([counts[kind] for kind in rest], axis=0).tolist()
    return Composition(composition.batches, chosen), len(rest)


def thinned(curves: Sequence[Curve], points: int = POINTS) -> list[Curve]:
    """Returns curves with fewer points, evenly chosen; the last point of each stays.

    Args:
        curves: The curves.
        points: How many points of each curve are kept, about.
    """
    return [
        Curve(c.name, c.x[::-1][:: 1 + len(c.x) // points][::-1],
             c.y[::-1][:: 1 + len(c.y) // points][::-1])
        for c in curves
    ]  # fmt: skip


def communication(events: Iterable[PlainEvent]) -> list[Curve]:
    """Adds up the megabytes sent and received by all clients, over the seconds of the run.

    Args:
        events: The events `round`, and the events `taskended`, at which the server may hand out a
            generator, or ask for features and hand out prototypes.

    Returns:
        Two curves, `sent` and `received`.
    """
    events = sorted(events, key=lambda event: event["seconds"])
    seconds = [event["seconds"] for event in events]
    return [
        Curve(name, seconds, (np.cumsum([event.get(key, 0) for event in events]) / 1e6).tolist())
        for name, key in (("sent", "bytes_sent"), ("received", "bytes_received"))
    ]
