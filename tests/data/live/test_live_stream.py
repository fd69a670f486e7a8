"""Live streams: batches, tasks, new classes, samples that cannot be used."""

import json

import numpy as np
import pytest
import torch

from ofcl.data.live.iterator_feed import IteratorFeed
from ofcl.data.live.sample import StreamError
from ofcl.events import Appeared, Skipped
from tests.support.live_streams import drain, stream, vectors


def test_samples_become_batches_and_labels_places():
    live = stream(IteratorFeed(vectors((1, "b"), (2, "a"), (3, "b"), (4, "c"))))
    assert drain(live) == [
        ([[1, 0], [2, 0], [3, 0]], [0, 1, 0], None),
        ([[4, 0]], [2], None),  # it ended in the middle of a batch
    ]
    assert live.next_task() is None
    assert live.notices() == [Appeared(0, "b", 0), Appeared(0, "a", 1), Appeared(0, "c", 2)]
    assert live.notices() == []


def test_batches_are_cut_again_and_all_kinds_of_values_are_taken():
    items = [
        (np.ones((4, 2)), np.array([1, 1, 2, 2])),
        (torch.ones(2, 2), torch.tensor([1, 2])),
        ([[1, 1]], ["1"]),
    ]
    batches = drain(stream(IteratorFeed(items)))
    assert [y for _, y, _ in batches] == [[0, 0, 1], [1, 0, 1], [0]]


def test_a_task_ends_where_its_name_changes():
    items = vectors((1, "a", "x"), (2, "a", "x"), (3, "b", "y"), (4, "a", "x"))
    live = stream(IteratorFeed(items))
    assert [(y, task) for _, y, task in drain(live)] == [([0, 0], 0), ([1], 1), ([0], 2)]


@pytest.mark.parametrize(
    ("x", "y", "problem"),
    [
        ([1.0, float("nan")], "a", "a value is not a number"),
        ([1.0, 1e300], "a", "too large"),
        ([1.0], "a", "vectors of 1, but so far it was vectors of 2"),
        ("text", "a", "texts, but so far it was vectors of 2"),
        (np.zeros((4, 4)), "a", "images of 1 × 4 × 4"),
        ([1.0, "?"], "a", "neither a text, numbers nor an image"),
        ([1.0, 2.0], "", "the label is empty"),
        ([1.0, 2.0], 0.5, "0.5 is a measure"),
        ([1.0, 2.0], None, "the label is missing"),
    ],
)
def test_a_bad_sample_stops_or_is_left_out_and_counted(x, y, problem):
    items = [([1.0, 2.0], "a"), (x, y), ([3.0, 4.0], "b"), ([5.0, 6.0], "b")]
    with pytest.raises(StreamError, match=problem):
        drain(stream(IteratorFeed(items)))
    live = stream(IteratorFeed(items), on_bad="skip")
    assert drain(live) == [([[1, 2], [3, 4], [5, 6]], [0, 1, 1], None)]
    (skipped,) = [notice for notice in live.notices() if isinstance(notice, Skipped)]
    assert (skipped.client, skipped.row) == (0, 1)
    assert problem in skipped.problem


def test_bad_samples_at_the_end_are_told_too():
    live = stream(IteratorFeed([([1.0], "a"), ([None], "a")]), on_bad="skip")
    assert len(drain(live)) == 1
    assert [type(notice) for notice in live.notices()] == [Skipped, Appeared]


def test_a_task_may_be_any_number_but_must_be_one():
    items = [([1.0], "a", np.int64(3)), ([1.0], "a", np.float32(3)), ([1.0], "a", float("nan"))]
    live = stream(IteratorFeed(items), on_bad="skip")
    assert [y for _, y, _ in drain(live)] == [[0, 0]]
    json.dumps(live.state())  # plain values only
