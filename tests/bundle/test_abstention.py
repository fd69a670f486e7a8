"""Abstention: the curve of errors against coverage, and the threshold for an error."""

import numpy as np
import pytest

from ofcl.bundle.abstention import MOST_POINTS, risk_curve, threshold_for
from ofcl.errors import OfclError


def test_the_curve_by_hand():
    curve = risk_curve(np.array([0.3, 0.1, 0.2, 0.4]), np.array([False, True, True, False]))
    assert curve.thresholds == (0.1, 0.2, 0.3, 0.4)
    assert curve.coverage == (0.25, 0.5, 0.75, 1.0)
    assert curve.errors == pytest.approx((0, 0, 1 / 3, 0.5))


def test_equal_values_are_answered_together():
    curve = risk_curve(np.zeros(4), np.array([True, False, True, True]))
    assert (curve.thresholds, curve.coverage, curve.errors) == ((0.0,), (1.0,), (0.25,))


def test_a_long_curve_keeps_its_ends():
    unsure = np.linspace(0, 1, 10_000)
    curve = risk_curve(unsure, unsure < 0.9)
    assert len(curve.thresholds) == MOST_POINTS
    assert curve.coverage[-1] == 1.0
    assert curve.errors[-1] == pytest.approx(0.1)


def test_the_threshold_counts_one_error_more_than_was_seen():
    curve = risk_curve(np.arange(10) / 10, np.array([True] * 9 + [False]))
    # Nine right answers: (0 + 1) / (9 + 1) = 10 %; all ten: (1 + 1) / 11 = 18 %.
    assert threshold_for(curve, 0.10) == 0.8
    assert threshold_for(curve, 0.18) == 0.8
    assert threshold_for(curve, 0.19) == 0.9


@pytest.mark.parametrize("samples", [0, 5])
def test_what_cannot_be_promised_is_said(samples):
    curve = risk_curve(np.arange(samples) / 10, np.ones(samples, dtype=bool))
    with pytest.raises(OfclError, match=f"{samples} validation samples"):
        threshold_for(curve, 0.01)
