"""The result of a run: computed from sums that do not grow with the number of events."""

import sys

from ofcl.evaluation.results import Summary
from ofcl.events import Learned, Round


def size_of(value) -> int:
    """The bytes of plain values, all that they hold included."""
    inside = value.items() if isinstance(value, dict) else ()
    return sys.getsizeof(value) + sum(size_of(part) for pair in inside for part in pair)


def test_the_events_of_an_endless_run_do_not_pile_up():
    summary = Summary()

    def learn(batches):
        for n in range(batches):
            summary.add(Learned(client=n % 2, task=0, batches=1, samples=10, loss=5.0, correct=4))
            summary.add(Round(round=n, clients=[0, 1], samples=[10, 10], bytes_sent=8,
                              bytes_received=16))  # fmt: skip

    learn(10)
    before = size_of(vars(summary))
    learn(10_000)
    assert size_of(vars(summary)) < before + 200
    result = summary.result(clients=2, tasks=None, seconds=1.0)
    assert (result.rounds, result.bytes_sent) == (10_010, 80_080)
    assert (result.anytime_accuracy, result.anytime_loss) == (40.0, 0.5)
