"""Tests of a model: right predictions by task and class, and which class is taken for which."""

import numpy as np
import torch
from torch import nn

from ofcl import HeldOut
from ofcl.evaluation.held_out import SeenHeldOut, count_confusions, count_hits


class Parity(nn.Module):
    """Takes even samples for class 0 and odd ones for class 1."""

    def forward(self, x):
        return torch.nn.functional.one_hot(x.long().squeeze(1) % 2, 3).float()


X = torch.arange(6.0).unsqueeze(1)
Y = torch.tensor([0, 1, 1, 1, 2, 2])
ROWS = [np.array([0, 1, 2, 3]), np.array([4, 5])]


def test_hits_and_confusions_are_of_the_tasks_so_far():
    held_out = HeldOut(X, Y, ROWS)
    assert held_out.hits(Parity(), [[0, 1]]) == [[[0, 1, 1], [1, 2, 3]]]
    predictions = held_out.predictions(Parity(), [[0, 1], [2]])
    assert count_hits(predictions) == [[[0, 1, 1], [1, 2, 3]], [[2, 0, 2]]]
    confusions = count_confusions(predictions)
    assert confusions == [[0, 0, 1], [1, 0, 1], [1, 1, 2], [2, 0, 1], [2, 1, 1]]
    assert all(type(number) is int for row in confusions for number in row)


def test_all_tasks_at_once():
    held_out = HeldOut(X, Y, ROWS, at_once=True)
    assert held_out.hits(Parity(), [[0, 1, 2]]) == [[[0, 1, 1], [1, 2, 3]], [[2, 0, 2]]]


def test_nothing_to_test_on():
    assert HeldOut(X, Y, []).hits(Parity(), [[0]]) == []
    empty = HeldOut(X, Y, [np.array([], dtype=int)])
    assert empty.hits(Parity(), [[0]]) == [[]]
    assert count_confusions(empty.predictions(Parity(), [[0]])) == []
    unknown = SeenHeldOut(lambda: X, list, dict)
    assert unknown.hits(Parity(), [[0], [1]]) == [[], []]
    assert count_confusions(unknown.predictions(Parity(), [[0], [1]])) == []
    assert count_confusions([]) == []


def test_a_class_of_a_stream_is_tested_in_the_task_in_which_it_came():
    labels = ["a", "b", "b", "b", "c", "c"]
    held_out = SeenHeldOut(lambda: X, lambda: labels, lambda: {"a": 0, "b": 1})
    assert held_out.hits(Parity(), [[1], [0, 1]]) == [[[1, 2, 3]], [[0, 1, 1]]]
    predictions = held_out.predictions(Parity(), [[1], [0, 1]])
    assert count_confusions(predictions) == [[0, 0, 1], [1, 0, 1], [1, 1, 2]]


def test_classes_that_others_have_seen_are_tested_with_the_last_task():
    """A client that knows one class of three is not right about everything."""
    labels = ["a", "b", "b", "b", "c", "c"]
    known = {"a": 0, "b": 1, "c": 2}
    held_out = SeenHeldOut(lambda: X, lambda: labels, lambda: known)
    assert held_out.hits(Parity(), [[0]]) == [[[0, 1, 1], [1, 2, 3], [2, 0, 2]]]
    assert held_out.hits(Parity(), [[0], [1]]) == [[[0, 1, 1]], [[1, 2, 3], [2, 0, 2]]]
