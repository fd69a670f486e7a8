"""Draws of a `Change` for several mini-batches at once.

Computing homographies for a handful of images takes about as long as for hundreds, and a GPU would
wait for it. The numbers, and the generator's state in a checkpoint, are the same as if they were
drawn mini-batch by mini-batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ofcl.uncertainty.change import Change

MOST_SAMPLES = 512  # to draw for at once; more would take long and much memory


class Draws:
    """Draws the random numbers of a change for one mini-batch after the other, some of them ahead.

    Args:
        change: The change that the numbers are for.
        generator: The generator to draw from; nothing else may use it.
        each: The number of times that the change draws for each mini-batch.
    """

    def __init__(self, change: Change, generator: torch.Generator, each: int = 1) -> None:
        self.change, self._generator, self._each = change, generator, each
        self._shape = torch.Size()
        self._page: list[Tensor] = []  # drawn but not used yet, the next one last
        self._length = 0  # mini-batches that the page was drawn for
        # The generator's state before the page was drawn, if it is of several mini-batches.
        self._before = torch.empty(0)

    def next(self, shape: torch.Size) -> Tensor:
        """Returns the random numbers for the next mini-batch, (each, …).

        Args:
            shape: The shape of the mini-batch (n, …).
        """
        if shape != self._shape or not self._page:
            self._draw_page(shape)
        return self._page.pop()

    def _draw_page(self, shape: torch.Size) -> None:
        """Draws numbers for one or more mini-batches of a shape.

        If the shape is that of the last call, the numbers are for twice as many mini-batches as
        then, up to a limit; otherwise for one.

        Args:
            shape: The shape of each mini-batch (n, …).
        """
        self._put_back()
        longer = min(2 * self._length, self.change.ahead, MOST_SAMPLES // max(shape[0], 1))
        self._length = max(longer, 1) if shape == self._shape else 1
        self._shape = shape
        if self._length > 1:
            self._before = self._generator.get_state()
        drawn = self.change.draw_many(shape, self._generator, self._length * self._each)
        self._page = [*torch.split(drawn, self._each)][::-1]

    def _put_back(self) -> None:
        """Drops the numbers that were not used, and sets the generator back to before them."""
        if self._page:
            self._generator.set_state(self._before)
            if taken := self._length - len(self._page):
                self.change.draw_many(self._shape, self._generator, taken * self._each)
            self._page = []

    def state(self) -> Tensor:
        """Returns the generator's state after the numbers used so far, for a checkpoint."""
        self._put_back()
        return self._generator.get_state()

    def load_state(self, state: Tensor) -> None:
        """Puts the generator back into a state that it was in.

        Args:
            state: The state that `state` returned.
        """
        self._page = []
        self._generator.set_state(state)
