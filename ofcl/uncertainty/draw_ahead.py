"""The draws of a change, mini-batch after mini-batch, made some at once.

To work out a homography for a handful of images takes about as long as for hundreds, and a GPU
would wait for it. The numbers, and the state to save, are those of draws that are made one by one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ofcl.uncertainty.perturbations import Change

SAMPLES = 512  # that draws are made for at once; more would take longer and hold much


class Draws:
    """What a change draws from a generator that nobody else uses; `each` times for a mini-batch."""

    def __init__(self, change: Change, generator: torch.Generator, each: int = 1) -> None:
        self.change, self._generator, self._each = change, generator, each
        self._shape = torch.Size()
        self._page: list[Tensor] = []  # those to come, the next one last
        self._length = 0  # mini-batches that the page was made for
        self._before = torch.empty(0)  # the generator's state before them, if there are several

    def next(self, shape: torch.Size) -> Tensor:
        """The draws for the samples of a mini-batch: (each, …) as `draw_many` gives them."""
        if shape != self._shape or not self._page:
            self._turn(shape)
        return self._page.pop()

    def _turn(self, shape: torch.Size) -> None:
        """Draws a page: twice as long as the last one, if the shape is the same."""
        self._put_back()
        longer = min(2 * self._length, self.change.ahead, SAMPLES // max(shape[0], 1))
        self._length = max(longer, 1) if shape == self._shape else 1
        self._shape = shape
        if self._length > 1:
            self._before = self._generator.get_state()
        drawn = self.change.draw_many(shape, self._generator, self._length * self._each)
        self._page = [*torch.split(drawn, self._each)][::-1]

    def _put_back(self) -> None:
        """Puts the generator behind the draws that were taken."""
        if self._page:
            self._generator.set_state(self._before)
            if taken := self._length - len(self._page):
                self.change.draw_many(self._shape, self._generator, taken * self._each)
            self._page = []

    def state(self) -> Tensor:
        """Where the generator is after what was taken, for a checkpoint."""
        self._put_back()
        return self._generator.get_state()

    def load_state(self, state: Tensor) -> None:
        """Puts back what `state` took."""
        self._page = []
        self._generator.set_state(state)
