"""Feeds of lists, iterators and functions, and how they go on."""

import numpy as np
import pytest

from ofcl.data.live.iterator_feed import IteratorFeed
from ofcl.data.live.sample import StreamError
from tests.support.live_streams import ITEMS, drain, first_numbers, restart, stream, vectors


def test_none_means_that_there_is_nothing_now():
    live = stream(IteratorFeed([([1.0], 0), None, ([2.0], 0), ([3.0], 0)]))
    assert [live.ready(), live.ready()] == [False, True]
    assert next(live).x.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (3, "not a int"),
        ((1, 2, 3, 4), "not a tuple"),
        (([1], [1, 2]), "1 samples with 2 labels"),
        (([[1.0], [2.0]], ["a", "b"], [1, 2, 3]), "2 labels and 3 tasks"),
    ],
)
def test_what_is_no_sample_at_all_is_refused_or_left_out(item, problem):
    with pytest.raises(StreamError, match=problem):
        drain(stream(IteratorFeed([item])))
    live = stream(IteratorFeed([item, ([1.0], "a")]), on_bad="skip")
    assert drain(live) == [([[1]], [0], None)]


def test_a_batch_may_have_a_task_for_each_sample():
    item = ([[1.0], [2.0], [3.0]], ["a", "b", "a"], np.array([0, 0, 1]))
    assert [task for _, _, task in drain(stream(IteratorFeed([item])))] == [0, 1]


def test_what_goes_wrong_in_an_iterator_is_a_stream_s_error():
    def broken():
        yield [1.0], "a"
        raise ConnectionError("the line is dead")

    with pytest.raises(StreamError, match="client 0: its stream failed: ConnectionError: the line"):
        drain(stream(IteratorFeed(broken())))


@pytest.mark.parametrize("batches", range(5))
def test_a_function_is_asked_for_what_comes_behind(batches):
    def open_at(start):
        return iter(ITEMS[start:])

    whole = drain(stream(IteratorFeed(open_at)))
    live = stream(IteratorFeed(open_at))
    first = []
    for _ in range(batches):
        assert live.ready()
        batch = next(live)
        first.append((batch.x.tolist(), batch.y.tolist(), batch.task))
    assert first + drain(restart(live, IteratorFeed(open_at))) == whole


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_an_iterator_goes_on_and_what_it_had_brought_is_not_lost(at_once):
    """Also when it brings batches that are cut in the middle."""
    rows = vectors(*((n, "a") for n in range(21)))
    items = iter(
        [([x for x, _ in part], [y for _, y in part])
         for part in (rows[n : n + at_once] for n in range(0, 21, at_once))]
    )  # fmt: skip
    live = stream(IteratorFeed(items), batch_size=4)
    assert live.ready()
    first = next(live).x[:, 0].tolist()
    other = restart(live, IteratorFeed(items), batch_size=4)
    assert first + [x[0] for batch, _, _ in drain(other) for x in batch] == list(range(21))


@pytest.mark.parametrize("batches", range(4))
def test_a_list_is_opened_behind_what_was_learned(batches):
    live = stream(IteratorFeed(ITEMS))
    first = []
    for _ in range(batches):
        assert live.ready()
        first += next(live).x[:, 0].tolist()
    other = restart(live, IteratorFeed(ITEMS))
    assert first + [x[0] for batch, _, _ in drain(other) for x in batch] == list(range(11))


def test_a_list_that_is_too_short_to_go_on_from():
    live = stream(IteratorFeed(ITEMS))
    assert live.ready()
    next(live)
    with pytest.raises(StreamError, match="there are 2 samples, but 3 were learned"):
        restart(live, IteratorFeed(ITEMS[:2])).ready()


def test_a_reading_again_does_not_bring_what_is_pending_twice(tmp_path):
    """A list whose later items fail a few times, such as one that is fetched."""
    fails = [True, True, False]

    def items(start):
        yield from ITEMS[start:2]
        if fails.pop(0):
            raise OSError("no network")
        yield from ITEMS[max(start, 2) : 4]

    live = stream(IteratorFeed(items))
    for _ in range(2):
        with pytest.raises(StreamError, match="OSError: no network"):
            live.ready()
    assert first_numbers(live) == [0, 1, 2, 3]
