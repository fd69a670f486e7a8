import pytest

from ofcl.evaluation import metrics

# One client, three tasks: rows after each task, columns tasks.
MATRIX = [[80.0, None, None], [50.0, 90.0, None], [30.0, 60.0, 100.0]]


def test_a_and_f_by_hand():
    assert metrics.last_accuracy(MATRIX) == pytest.approx((30 + 60 + 100) / 3)
    assert metrics.forgetting(MATRIX) == pytest.approx(((80 - 30) + (90 - 60)) / 2)


def test_f_takes_the_best_before_the_end_and_may_be_negative():
    matrix = [[50.0, None, None], [70.0, 40.0, None], [60.0, 55.0, 90.0]]
    assert metrics.forgetting(matrix) == pytest.approx((10 - 15) / 2)


def test_one_task_has_no_forgetting():
    assert metrics.forgetting([[50.0]]) is None
