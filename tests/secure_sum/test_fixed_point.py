import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ofcl import OfclError
from ofcl.secure_sum.fixed_point import STEPS, decoded, encoded
from ofcl.secure_sum.masking import mask
from ofcl.secure_sum.vectors import Vector


def test_a_weighted_mean_by_hand():
    one = encoded({"b": torch.tensor([1.0]), "a": torch.tensor([[-2.0, 0.5]])}, 3, 2)
    other = encoded({"a": torch.tensor([[2.0, 0.5]]), "b": torch.tensor([5.0])}, 1, 2)
    assert one.tolist() == [-6 * STEPS, 1.5 * STEPS, 3 * STEPS, 3]
    mean, weight = decoded(one + other, {"b": torch.zeros(1), "a": torch.zeros(1, 2)})
    assert weight == 4
    assert list(mean) == ["b", "a"]
    assert mean["a"].tolist() == [[-1.0, 0.5]]
    assert mean["b"].tolist() == [2.0]
    assert decoded(one - one, mean) == ({}, 0)


@given(st.lists(st.tuples(st.floats(-1e4, 1e4, width=32), st.integers(1, 10**6)),
                min_size=3, max_size=6))  # fmt: skip
def test_masks_leave_a_sum_that_is_exact_to_half_a_step_for_each(parties):
    total = torch.zeros(2, dtype=torch.int64)
    noise = mask(bytes(32), Vector(total)).exact
    for value, weight in parties:
        total += encoded({"w": torch.tensor([value])}, weight, len(parties)) + noise
    total -= len(parties) * noise
    mean, weight = decoded(total, {"w": torch.zeros(1, dtype=torch.double)})
    expected = sum(v * w for v, w in parties) / weight
    assert abs(mean["w"].item() - expected) <= len(parties) / (2 * STEPS * weight) + 1e-9


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e12])
def test_numbers_that_a_sum_cannot_hold_are_refused(value):
    with pytest.raises(OfclError, match="too large to be masked"):
        encoded({"w": torch.tensor([value])}, 10, 3)
