"""Draws that are made some at once are those that are made one by one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ofcl.methods.augmentations import FlipAndRotate
from ofcl.seeds import generator
from ofcl.uncertainty.change import Change
from ofcl.uncertainty.draw_ahead import Draws
from ofcl.uncertainty.perturbations import ImageViews, NoisyCopies

CHANGES = [
    ImageViews(),
    ImageViews(("crop", "rotate-45", "cutout-10"), draws="batch"),
    FlipAndRotate(),
    FlipAndRotate(draws="batch"),
    NoisyCopies(),
]


def one_by_one(change: Change, shape: torch.Size, draw: torch.Generator, each: int) -> torch.Tensor:
    return torch.stack([change.draw(shape, draw) for _ in range(each)])


@pytest.mark.parametrize("change", CHANGES, ids=repr)
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_whatever_shapes_come_and_whenever_it_is_saved(change, data):
    """Sizes of mini-batches, some of them after a checkpoint, some after going on from one."""
    each = data.draw(st.integers(1, 2))
    ahead, alone = Draws(change, generator(0, "draws"), each), generator(0, "draws")
    for _ in range(data.draw(st.integers(1, 12))):
        shape = torch.Size([data.draw(st.sampled_from([1, 3, 10])), 3, 8, 6])
        for _ in range(data.draw(st.integers(1, 9))):
            assert torch.equal(ahead.next(shape), one_by_one(change, shape, alone, each))
        then = data.draw(st.sampled_from(["go on", "save", "restore"]))
        if then != "go on":
            saved = ahead.state()
            assert torch.equal(saved, alone.get_state())
        if then == "restore":
            ahead = Draws(change, generator(1, "other"), each)
            for _ in range(data.draw(st.integers(0, 4))):  # it may have come farther
                ahead.next(shape)
            ahead.load_state(saved)


def test_pages_get_longer_while_the_shape_is_the_same():
    asked = []

    class Counted(FlipAndRotate):
        def draw_many(self, shape, generator, times):
            asked.append(times)
            return super().draw_many(shape, generator, times)

    draws, shape = Draws(Counted(), generator(0, "draws"), each=2), torch.Size([10, 3, 8, 8])
    for _ in range(40):
        draws.next(shape)
    assert asked == [2, 4, 8, 16, 32, 32]  # for 1, 2, 4, 8 and then 16 mini-batches
    asked.clear()
    for _ in range(6):
        draws.next(torch.Size([200, 3, 8, 8]))
    assert asked[0] < 32  # of the page before, those that were taken
    assert asked[1:] == [2, 4, 4, 4]  # not for more than 512 images
