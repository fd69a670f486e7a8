"""Abstention: the curve of errors against coverage, and the threshold for an error."""

import numpy as np
import pytest

from ofcl.bundle.abstention import MOST_POINTS, risk_curve, threshold_for, upper_bound
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


def test_the_threshold_is_careful():
    """Of ten right answers, Wilson's bound still allows z² / (10 + z²) = 21.3 % of errors."""
    curve = risk_curve(np.arange(11) / 10, np.array([True] * 10 + [False]))
    assert upper_bound(np.array([0.0]), np.array([10.0])) == pytest.approx(0.2129, abs=1e-4)
    assert threshold_for(curve, 0.213) == 0.9
    with pytest.raises(OfclError, match="cannot be promised: on 11 validation samples the best is"):
        threshold_for(curve, 0.212)


def test_the_promise_is_kept_on_new_samples():
    """For most draws, and on average, the true error is below the allowed one."""
    draw, errors = np.random.default_rng(0), []
    for _ in range(200):
        unsure = draw.random(1000)
        right = draw.random(1000) > unsure / 2  # the error rises with unsureness, 25 % in all
        bound = threshold_for(risk_curve(unsure, right), 0.15)
        errors.append(bound / 4)  # the mean of u / 2 below the bound
    assert np.mean(errors) < 0.14
    assert np.mean(np.array(errors) <= 0.15) > 0.85


@pytest.mark.parametrize("samples", [0, 5])
def test_what_cannot_be_promised_is_said(samples):
    curve = risk_curve(np.arange(samples) / 10, np.ones(samples, dtype=bool))
    with pytest.raises(OfclError, match=f"{samples} validation samples"):
        threshold_for(curve, 0.01)
