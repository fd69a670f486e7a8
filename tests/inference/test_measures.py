"""Accuracy, calibration, risk against coverage: values worked out by hand."""

import numpy as np
import pytest

from ofcl.bundle.abstention import risk_curve
from ofcl.bundle.trained_model import Answers
from ofcl.inference.answering import choose_abstention
from ofcl.inference.measures import (
    area,
    calibration,
    error_at,
    evaluate,
    hits_of_tasks,
    rows_by_task,
)

# Five samples of the classes 0, 0, 1, 1, 2; the second and the last are wrong.
PROBABILITIES = np.array([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.1, 0.9, 0.0], [0.0, 1.0, 0.0],
                          [0.5, 0.3, 0.2]], dtype=np.float32)  # fmt: skip
CLASSES = np.array([0, 0, 1, 1, 2])
UNSURE = np.array([0.1, 0.5, 0.2, 0.3, 0.4], dtype=np.float32)


@pytest.fixture
def found():
    hits = hits_of_tasks(CLASSES, PROBABILITIES.argmax(1), [rows_by_task(CLASSES, [[0, 1], [2]])])
    answers = Answers(PROBABILITIES, UNSURE)
    return evaluate("mine", ("a", "b", "c"), answers, CLASSES, hits, unknown={"d": 2}, left_out=1)


def test_accuracies(found):
    assert (found.samples, found.accuracy) == (5, 60.0)
    assert found.balanced_accuracy == 50.0  # 50, 100 and 0
    assert found.tasks == [75.0, 0.0]
    assert found.mean_of_tasks == 37.5
    assert [(c.label, c.samples, c.right, c.accuracy) for c in found.classes] == [
        ("a", 2, 1, 50.0), ("b", 2, 2, 100.0), ("c", 1, 0, 0.0)
    ]  # fmt: skip
    assert found.confusions == [[0, 0, 1], [0, 1, 1], [1, 1, 2], [2, 0, 1]]


def test_calibration_error(found):
    # Each sample is in a bin of its own but 0.9 and 0.8, which are in others too.
    distances = [0.2, 0.4, 0.1, 0.0, 0.5]
    assert found.ece == pytest.approx(sum(distances) / 5)
    assert sum(b.samples for b in found.bins) == 5
    assert len(found.bins) == 15
    assert found.bins[-1].samples == 1
    assert calibration(np.empty((0, 3)), np.empty(0, dtype=int))[0] is None


def test_probabilities_at_an_edge_are_in_the_lower_bin():
    _, bins = calibration(np.array([[0.2, 0.2, 0.6]]), np.array([2]))
    assert [b.samples for b in bins].index(1) == 8  # from 8/15 to 9/15
    assert bins[8].probability == pytest.approx(0.6)


def test_risk_against_coverage(found):
    by_probability = found.risk["probability"]
    assert by_probability.coverage == (0.2, 0.4, 0.6, 0.8, 1.0)
    assert by_probability.errors == (0.0, 0.0, 0.0, 0.25, 0.4)
    assert error_at(by_probability, 0.9) == 0.25
    assert error_at(by_probability, 0.1) is None
    assert area(by_probability) == pytest.approx(0.2 * 0.25 + 0.2 * 0.4)
    assert found.risk["uncertainty"].errors == (0.0, 0.0, 0.0, 0.25, 0.4)


def test_clients_with_tasks_in_another_order_are_added_up_task_by_task():
    classes, predicted = np.array([0, 1, 0, 1]), np.array([0, 0, 0, 1])
    clients = [[np.array([0]), np.array([1])], [np.array([3]), np.array([2])]]
    assert hits_of_tasks(classes, predicted, clients) == [[[0, 1, 1], [1, 1, 1]],
                                                          [[0, 1, 1], [1, 0, 1]]]  # fmt: skip


def test_a_class_belongs_to_the_first_task_that_has_it():
    rows = rows_by_task(np.array([0, 1, 2, 1]), [[0, 1], [1, 2]])
    assert [r.tolist() for r in rows] == [[0, 1, 3], [2]]


def test_an_abstention_says_what_it_does():
    curve = risk_curve(np.arange(100) / 100, np.arange(100) < 90)
    chosen = choose_abstention(curve, "probability", 0.05)
    assert (chosen.threshold, chosen.coverage) == (0.9, 0.91)
    assert chosen.words() == (
        "answered is what has a probability of at least 0.100: of 100 validation samples 91.0%, "
        "and 1.1% of these answers are wrong"
    )
