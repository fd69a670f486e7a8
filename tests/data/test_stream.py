import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from ofcl import ArrayStream


def stream(sizes, batch_size, limit=None):
    rows = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    x = torch.arange(sum(sizes))
    return ArrayStream(x, x, rows, batch_size, limit=limit)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.integers(1, 5))
def test_every_sample_comes_once_in_order_and_the_last_batch_is_kept(sizes, batch_size):
    batches = list(stream(sizes, batch_size))
    assert torch.cat([b.x for b in batches] or [torch.empty(0)]).tolist() == list(range(sum(sizes)))
    assert all(1 <= len(b.x) <= batch_size for b in batches)
    assert [b.task for b in batches] == sorted(b.task for b in batches)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.data())
def test_a_stream_goes_on_from_any_position(sizes, data):
    first, second = stream(sizes, 4), stream(sizes, 4)
    for _ in range(data.draw(st.integers(0, len(first)))):
        next(first)
    second.load_state(first.state())
    assert second.next_task() == first.next_task()
    assert [b.x.tolist() for b in second] == [b.x.tolist() for b in first]


def test_limit_is_per_task():
    assert [b.task for b in stream([20, 3, 20], 2, limit=3)] == [0, 0, 0, 1, 1, 2, 2, 2]


def test_next_task_looks_ahead():
    s = stream([1, 0, 1], 1)
    seen = [s.next_task()]
    for _ in range(2):
        next(s)
        seen.append(s.next_task())
    assert seen == [0, 2, None]
