"""Numbers over time are those of the events."""

import numpy as np
import pytest

from ofcl.report import series
from tests.support.report_pages import METHODS, result_of

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once


def learned(client, task, correct, samples=10, batches=1):
    return {"event": "learned", "client": client, "task": task, "batches": batches,
            "correct": correct, "samples": samples}  # fmt: skip


def test_accuracy_along_the_stream_is_of_all_clients():
    events = [learned(0, 0, 10), learned(1, 0, 0), learned(0, 1, 5), learned(1, 1, 5)]
    line = series.along_stream(events)
    assert line.x == [0.5, 1.5]
    assert line.y == [50.0, 50.0]
    assert series.along_stream(events, points=1).y == [50.0]
    assert series.along_stream([]).x == []
    assert series.task_starts(events) == [1]


def test_what_memories_hold_is_added_over_clients():
    def told(client, batches, held):
        return {"client": client, "batches": batches, "held": held}

    events = [
        told(0, 10, [[0, 3, 5]]),
        told(1, 12, [[0, 4, 2]]),
        told(0, 20, [[0, 3, 2], [1, 4, 3]]),
    ]
    by_task = series.composition(events, "task")
    assert by_task.batches == [10, 12, 20]
    assert by_task.counts == {0: [5, 7, 4], 1: [0, 0, 3]}
    assert series.composition(events, "class").counts == {3: [5, 5, 2], 4: [0, 2, 5]}


def test_accuracy_and_forgetting_of_a_run_that_goes_on():
    matrix = [[90.0, None, None], [40.0, 80.0, None], [None, None, None]]
    first, second, third = series.accuracy_over_time(matrix)
    assert (first.x, first.y) == ([1.0, 2.0], [90.0, 40.0])
    assert (second.x, third.x) == ([2.0], [])
    assert series.forgetting_by_task([matrix]) == [50.0]
    other = [[60.0, None, None], [None, None, None], [None, None, None]]  # it is behind
    assert series.forgetting_by_task([matrix, other]) == [50.0]
    assert series.forgetting_by_task([[[None]]]) == []


def test_forgetting_of_tasks_is_on_average_that_of_the_run(demo):
    for method in METHODS:
        result = result_of(demo / method)
        falls = series.forgetting_by_task(result["accuracy"])
        assert sum(falls) / len(falls) == pytest.approx(result["F"])


def test_megabytes_add_up():
    rounds = [{"seconds": s, "bytes_sent": 2e6, "bytes_received": 1e6} for s in (1.0, 2.0)]
    sent, received = series.communication(rounds)
    assert (sent.x, sent.y) == ([1.0, 2.0], [2.0, 4.0])
    assert received.y == [1.0, 2.0]
    handed = {"seconds": 1.5, "bytes_received": 3e6}  # when a task ends
    sent, received = series.communication([*rounds, handed])
    assert (received.x, received.y) == ([1.0, 1.5, 2.0], [1.0, 4.0, 5.0])
    assert sent.y == [2.0, 2.0, 4.0]


def test_many_classes_are_drawn_with_the_others_together():
    held = series.Composition([1, 2], {c: [float(c), 1.0] for c in range(30)})
    some, others = series.largest(held, 18)
    assert len(some.counts) == 19
    assert others == 12
    assert np.sum(list(some.counts.values())) == np.sum(list(held.counts.values()))
