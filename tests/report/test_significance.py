"""Differences that are real, and those that are not."""

import numpy as np

from ofcl.report import significance
from ofcl.report.significance import paired_difference, seeds_needed


def values(draw, seeds, clients, shift=0.0, noise=1.0):
    """Experiments that share what a seed is like, and differ by a shift and by noise."""
    return {seed: [50 + 5 * seed + shift + noise * draw.normal() for _ in range(clients)]
            for seed in range(seeds)}  # fmt: skip


def test_a_difference_that_is_there_is_found():
    draw = np.random.default_rng(0)
    found = paired_difference(values(draw, 5, 5, shift=3), values(draw, 5, 5))
    assert found.real
    assert found.low < 3 < found.high
    assert found.seeds_needed <= 5


def test_where_there_is_none_an_interval_of_95_percent_has_zero_in_it(monkeypatch):
    monkeypatch.setattr(significance, "RESAMPLES", 400)
    draw = np.random.default_rng(1)
    wrong = sum(paired_difference(values(draw, 8, 5), values(draw, 8, 5)).real for _ in range(20))
    assert wrong <= 4  # 5 % of 20 is 1; intervals of eight seeds are a little narrow


def test_seeds_are_paired_and_too_few_say_nothing():
    draw = np.random.default_rng(2)
    first = values(draw, 4, 3)
    assert paired_difference(first, {9: [1.0, 2.0, 3.0]}) is None
    assert paired_difference(first, {0: first[0]}) is None
    exact = paired_difference(first, {s: [v + 1 for v in of] for s, of in first.items()})
    assert (round(exact.low, 6), round(exact.high, 6)) == (-1, -1)  # seeds differ, pairs do not


def test_seeds_needed_by_hand():
    assert seeds_needed([1.0, 3.0]) == 4  # ((1.96 + 0.84) · √2 / 2)² = 3.9
    assert seeds_needed([0.01, -0.011]) is None
