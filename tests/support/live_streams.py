"""Live streams of small samples, and what they bring."""

import json
import time

from ofcl.data.live.form import Form, Pattern
from ofcl.data.live.live_stream import LiveStream
from ofcl.data.live.vocabulary import Vocabulary


def stream(feed, batch_size=3, on_bad="stop", window=None, vocabulary=None):
    form = Form(Pattern(), window=window)
    return LiveStream(0, feed, form, vocabulary or Vocabulary(), batch_size, on_bad)


def drain(live):
    """All batches that are there, as (x, y, task)."""
    batches = []
    while live.ready() and live.next_task() is not None:
        task = live.next_task()
        batch = next(live)
        assert batch.task in (task, None)
        batches.append((batch.x.tolist(), batch.y.tolist(), batch.task))
    return batches


def vectors(*pairs):
    return [([float(x), 0.0], *rest) for x, *rest in pairs]


def restart(live, feed, **options):
    """Another stream that goes on where one was."""
    other = stream(feed, **options)
    other._vocabulary = Vocabulary(live._vocabulary.labels)
    other.form._pattern.kind, other.form._pattern.shape = "vector", (2,)
    other.load_state(json.loads(json.dumps(live.state(), default=lambda x: x.tolist())))
    return other


ITEMS = vectors(*((n, "ab"[n % 2], n // 4) for n in range(11)))


def lines(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def wait_for(live):
    for _ in range(200):
        if live.ready():
            return True
        time.sleep(0.01)
    return False


def first_numbers(live):
    """The first number of every sample that is there."""
    return [int(x[0]) for batch, _, _ in drain(live) for x in batch]
