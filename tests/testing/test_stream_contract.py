"""The contracts of streams and feeds, with some that break them."""

import numpy as np
import pytest
import torch

from ofcl import ArrayStream
from ofcl.data.live.iterator_feed import IteratorFeed
from ofcl.data.live.sample import Sample
from ofcl.events import Appeared
from ofcl.testing import ContractBroken, check_feed, check_stream, feed_contract, stream_contract

X, Y = torch.arange(20.0).view(10, 2), torch.arange(10) % 3


class Small(ArrayStream):
    """A stream of two tasks that keeps its contract; the others break one promise each."""

    def __init__(self, x=X, y=Y):
        super().__init__(x, y, [np.arange(5), np.arange(5, 10)], batch_size=2)


class WithoutClasses(Small):
    def __next__(self):
        batch = super().__next__()
        return batch._replace(y=batch.y[:0])


class WithFloatClasses(Small):
    def __init__(self):
        super().__init__(y=Y.float())


class WithNegativeClasses(Small):
    def __init__(self):
        super().__init__(y=Y - 1)


class WithIntegers(Small):
    def __init__(self):
        super().__init__(x=X.long())


class GoesBack(Small):
    def __next__(self):
        batch = super().__next__()
        return batch._replace(task=1 - batch.task)

    def next_task(self):
        task = super().next_task()
        return None if task is None else 1 - task


class AnnouncesAnother(Small):
    def next_task(self):
        task = super().next_task()
        return None if task is None else task + 1


class EndsTooEarly(Small):
    def next_task(self):
        return None if self._position == 3 else super().next_task()


class BeginsAnew(Small):
    def load_state(self, state):
        pass


class SavesNothingPlain(Small):
    def state(self):
        return {"position": range(self._position)}


class NeverReady(Small):
    def ready(self):
        return False


class RepeatsNotices(Small):
    def notices(self):
        return [Appeared(0, "a", 0)]


class DrawsItsSamples(Small):
    def __next__(self):
        batch = super().__next__()
        return batch._replace(x=torch.randn_like(batch.x))


class Empty(Small):
    def next_task(self):
        return None

    def __next__(self):
        raise StopIteration


BROKEN_STREAMS = {
    WithoutClasses: "has samples, and a class for each",
    WithFloatClasses: "classes are integers .n,. on the CPU",
    WithNegativeClasses: "classes count from 0",
    WithIntegers: "as finite numbers; torch.int64 came",
    GoesBack: "tasks never go back",
    AnnouncesAnother: "announced 1 and brought 0",
    EndsTooEarly: "has ended; `next` brought a mini-batch",
    BeginsAnew: "where 1 mini-batches had been taken goes on",
    SavesNothingPlain: "must be tensors and plain values",
    NeverReady: "within 0 seconds",
    RepeatsNotices: "tells each notice once",
    DrawsItsSamples: "mini-batches had been taken goes on from there",
    Empty: "at least one mini-batch",
}


@pytest.mark.parametrize("stream", BROKEN_STREAMS, ids=lambda stream: stream.__name__)
def test_a_broken_stream_is_caught(stream, monkeypatch):
    monkeypatch.setattr(stream_contract, "PATIENCE", 0.01)
    with pytest.raises(ContractBroken, match=BROKEN_STREAMS[stream]):
        check_stream(stream)


def test_a_stream_that_keeps_it_passes_also_if_it_has_no_end():
    check_stream(Small)
    endless = [np.arange(10)] * 1000
    check_stream(lambda: ArrayStream(X, Y, endless, batch_size=2), most=7)


ROWS = [([float(n)], "a") for n in range(6)]


class AlwaysFromTheStart(IteratorFeed):
    def open(self, taken):
        return super().open({})


class SkipsOne(IteratorFeed):
    def open(self, taken):
        return super().open({source: rows + 1 for source, rows in taken.items()})


class SaysItRereads(IteratorFeed):
    def __init__(self):
        super().__init__(iter(ROWS))
        self.rereads = True


class ReadsAhead(IteratorFeed):
    """Takes two samples at once and forgets the second when it is opened again."""

    def open(self, taken):
        arrivals = super().open(taken)
        for some in arrivals:
            ahead = next(arrivals, [])
            yield some
            yield ahead


class BringsRows(IteratorFeed):
    def open(self, taken):
        yield from ROWS


class CountsBackwards(IteratorFeed):
    def open(self, taken):
        yield [Sample([0.0], "a", row=row) for row in (2, 1, 0)]


class KnowsTooMuch(IteratorFeed):
    def __init__(self, items):
        super().__init__(items)
        self.known = {"file": object()}


class Silent(IteratorFeed):
    def open(self, taken):
        while True:
            yield []


class NoFeed:
    pass


BROKEN_FEEDS = {
    "brings what is behind the 1 samples taken; 5 were expected and 6 came": (
        lambda: AlwaysFromTheStart(ROWS)
    ),
    "brings what is behind the 1 samples taken; 5 were expected and 4 came": (
        lambda: SkipsOne(ROWS)
    ),
    "goes on behind the 1 samples that came; 5 were expected and 4 came": (
        lambda: ReadsAhead(iter(ROWS))
    ),
    "brings what is behind": SaysItRereads,
    "brings lists of `Sample`": lambda: BringsRows(ROWS),
    "rows of a source count up": lambda: CountsBackwards(ROWS),
    "the state of a feed": lambda: KnowsTooMuch(ROWS),
    "within 0 seconds": lambda: Silent(ROWS),
    "a feed has rereads, known and open": NoFeed,
    "a feed to check brings some samples; 0 came": lambda: IteratorFeed([]),
}


@pytest.mark.parametrize("message", BROKEN_FEEDS)
def test_a_broken_feed_is_caught(message, monkeypatch):
    monkeypatch.setattr(feed_contract, "PATIENCE", 0.01)
    with pytest.raises(ContractBroken, match=message):
        check_feed(BROKEN_FEEDS[message])
