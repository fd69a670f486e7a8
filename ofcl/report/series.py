"""What is drawn: numbers over time, from events and results."""

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

Event = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """A curve: its name, where it has values, and these."""

    name: str
    x: list[float]
    y: list[float]


def mean_matrix(matrices: Sequence[Sequence[Row]]) -> list[Row]:
    """The accuracy matrix of all clients: the mean of what is there.

    >>> mean_matrix([[[90.0, None], [40.0, 80.0]], [[70.0, None], [None, 60.0]]])
    [[80.0, None], [40.0, 70.0]]
    """
    return [
        [metrics.mean(cells) for cells in zip(*rows, strict=True)]
        for rows in zip(*matrices, strict=True)
    ]


def accuracy_over_time(matrix: Sequence[Row]) -> list[Line]:
    """For each task, its accuracy after it and after each later one."""
    lines = []
    for task in range(len(matrix)):
        points = [(t + 1, row[task]) for t, row in enumerate(matrix)]
        there = [(float(t), a) for t, a in points if a is not None]
        lines.append(Line(f"task {task + 1}", [t for t, _ in there], [a for _, a in there]))
    return lines


def forgetting_by_task(matrices: Sequence[Sequence[Row]]) -> Row:
    """How far each task has fallen from its best, the mean of the clients; each up to its end.

    >>> forgetting_by_task([[[90.0, None], [40.0, 80.0]], [[50.0, None], [60.0, 70.0]]])
    [20.0]
    """
    each = [metrics.falls(metrics.to_its_end(matrix)) for matrix in matrices]
    return [metrics.mean(falls) for falls in zip_longest(*each)]


def along_stream(learned: Iterable[Event], points: int = POINTS) -> Line:
    """The share of right predictions on mini-batches before they are learned, over all clients."""
    come: Counter[int] = Counter()
    rows = []
    for event in learned:
        come[event["client"]] += event["batches"]
        rows.append((come[event["client"]], event["correct"], event["samples"]))
    if not rows:
        return Line("accuracy", [], [])
    batch, correct, samples = np.array(rows, dtype=float).T
    edges = np.linspace(0, batch.max(), min(points, int(batch.max())) + 1)
    place = np.clip(np.searchsorted(edges, batch, side="left") - 1, 0, len(edges) - 2)
    right, all_of_them = (np.bincount(place, weights=w, minlength=len(edges) - 1)
                          for w in (correct, samples))  # fmt: skip
    there = all_of_them > 0
    middle = (edges[:-1] + edges[1:]) / 2
    return Line(
        "accuracy", middle[there].tolist(), (100 * right / all_of_them.clip(1))[there].tolist()
    )


def task_starts(learned: Iterable[Event]) -> list[int]:
    """The mini-batches of the first client at which its tasks begin, but the first."""
    starts, come, task = [], 0, 0
    for event in learned:
        if event["client"] == 0:
            if event["task"] > task:
                task = event["task"]
                starts.append(come)
            come += event["batches"]
    return starts


@dataclass(frozen=True)
class Composition:
    """How many samples of each kind the memories hold, together, over time."""

    batches: list[int]  # mini-batches of a client
    counts: dict[int, list[float]]  # by task, or by class


def composition(remembered: Sequence[Event], by: str) -> Composition:
    """What the memories of all clients hold, by `task` or by `class`.

    A client is counted with what it told last.
    """
    column = {"task": 0, "class": 1}[by]
    times = sorted({event["batches"] for event in remembered})
    told: dict[int, list[Event]] = defaultdict(list)
    for event in remembered:
        told[event["client"]].append(event)
    kinds = sorted({row[column] for event in remembered for row in event["held"]})
    counts = {kind: np.zeros(len(times)) for kind in kinds}
    for events in told.values():
        events = sorted(events, key=lambda event: event["batches"])
        when = np.searchsorted([event["batches"] for event in events], times, side="right") - 1
        for kind in kinds:
            held = [sum(row[2] for row in e["held"] if row[column] == kind) for e in events]
            counts[kind] += np.where(when >= 0, np.array(held)[when.clip(0)], 0)
    return Composition(times, {kind: values.tolist() for kind, values in counts.items()})


def largest(composition: Composition, most: int) -> tuple[Composition, int]:
    """The kinds that memories hold most of, the others together as −1; and how many these are.

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


def thinned(curves: Sequence[Line], points: int = POINTS) -> list[Line]:
    """Curves with at most so many points each, the last among them."""
    return [
        Line(c.name, c.x[::-1][:: 1 + len(c.x) // points][::-1],
             c.y[::-1][:: 1 + len(c.y) // points][::-1])
        for c in curves
    ]  # fmt: skip


def communication(travelled: Iterable[Event]) -> list[Line]:
    """Megabytes sent and received by all clients together, over the seconds of the run.

    Of rounds, and of what is handed out when a task ends.
    """
    events = sorted(travelled, key=lambda event: event["seconds"])
    seconds = [event["seconds"] for event in events]
    return [
        Line(name, seconds, (np.cumsum([event.get(key, 0) for event in events]) / 1e6).tolist())
        for name, key in (("sent", "bytes_sent"), ("received", "bytes_received"))
    ]
