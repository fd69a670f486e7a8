"""The result of a run: computed from sums that do not grow with the number of events."""

import sys

import pytest

from ofcl.evaluation.results import Summary, summarise
from ofcl.events import Evaluated, Learned, Round


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


def hits(*tasks):
    return [[list(c) for c in task] for task in tasks]


def test_results_are_means_over_clients_and_pool_the_global_model():
    def evaluated(client, task, test, global_test):
        return Evaluated(client, task, test, test, global_test)

    events = [
        evaluated(0, 0, hits([(0, 8, 10)]), hits([(0, 1, 10)])),
        evaluated(1, 0, hits([(0, 6, 10)]), hits([(0, 4, 10)])),
        evaluated(0, 1, hits([(0, 4, 10)], [(1, 10, 10)]), hits([(0, 0, 10)], [(1, 3, 4)])),
        evaluated(1, 1, hits([(0, 5, 10)], [(1, 3, 10)]), hits([(0, 2, 10)], [(1, 0, 4)])),
        Learned(0, 0, 1, 10, 20.0, 5),
        Learned(0, 0, 1, 5, 5.0, 4),
        Round(1, [0, 1], [5, 5], 100, 80),
    ]
    result = summarise(events, clients=2, tasks=2, seconds=1.0)
    assert result.accuracy == [[[80.0, None], [40.0, 100.0]], [[60.0, None], [50.0, 30.0]]]
    assert result.A == pytest.approx((70 + 40) / 2)
    assert result.F == pytest.approx((40 + 10) / 2)
    assert result.global_accuracy == [[25.0, None], [10.0, 37.5]]
    assert result.global_A == pytest.approx(23.75)
    assert result.global_F == pytest.approx(15)
    assert result.balanced_accuracy == pytest.approx((70 + 40) / 2)
    assert (result.rounds, result.bytes_sent, result.bytes_received) == (1, 100, 80)
    assert result.anytime_accuracy == pytest.approx(60)
    assert result.anytime_loss == pytest.approx(25 / 15)
    # The order in which clients' events interleave does not matter.
    assert summarise(reversed(events), clients=2, tasks=2, seconds=1.0) == result


def test_a_client_with_fewer_tasks_counts_to_the_end():
    """Of a stream: at the end, the global model is what it was for it when it was last tested."""
    right, wrong = hits([(0, 10, 10)]), hits([(0, 0, 10)])
    events = [
        Evaluated(0, 0, right, [], right),
        Evaluated(1, 0, wrong, [], wrong),
        Evaluated(0, 1, right + right, [], right + right),
        Evaluated(0, 2, right * 3, [], right * 3),
        Round(1, [0, 1], [5, 5], 100, 80),
    ]
    result = summarise(events, clients=2, tasks=None, seconds=0.0)
    assert result.A == 50.0
    assert result.global_accuracy == [[50.0, None, None], [50.0, 100.0, None], [50.0, 100.0, 100.0]]
    assert result.global_A == pytest.approx(250 / 3)
    assert result.global_F == 0.0
    without_rounds = summarise(events[:-1], clients=2, tasks=None, seconds=0.0)
    assert (without_rounds.A, without_rounds.global_A, without_rounds.global_F) == (
        50.0,
        None,
        None,
    )


def test_clients_without_test_data_do_not_count():
    events = [
        Evaluated(0, 0, hits([(0, 8, 10)]), [], []),
        Evaluated(1, 0, hits([]), [], []),
    ]
    result = summarise(events, clients=2, tasks=1, seconds=0.0)
    assert result.A == 80.0
    assert result.F is None
    assert result.global_A is None


def test_of_joint_training_one_test_counts_for_all_tasks():
    events = [
        Evaluated(0, 0, hits([(0, 8, 10)], [(1, 4, 10)]), [], hits([(0, 9, 10)], [(1, 9, 10)])),
        Evaluated(1, 0, hits([(0, 6, 10)], [(1, 6, 10)]), [], hits([(0, 9, 10)], [(1, 5, 10)])),
        Round(1, [0, 1], [5, 5], 100, 80),
    ]
    result = summarise(events, clients=2, tasks=2, seconds=1.0, joint=True)
    assert result.accuracy == [[[80.0, 40.0]], [[60.0, 60.0]]]
    assert (result.A, result.F) == (60.0, None)
    assert (result.global_accuracy, result.global_A) == ([[90.0, 70.0]], 80.0)
