"""How many new samples two models predict right, each just before it is learned."""

from __future__ import annotations

import torch
from torch import Tensor

from ofcl.state import State

LOT = 500  # samples that are counted together


class NewSamples:
    """Counts right predictions for new samples, lot by lot, so that it never grows.

    Attributes:
        lots: How many lots are full.
        last: Of the last full lot: samples, and how many of them the first and the second model
            predict right; None: no lot is full yet.
    """

    def __init__(self) -> None:
        self.lots = 0
        self.last: list[int] | None = None
        self._samples, self._right = 0, torch.zeros(2)

    def add(self, samples: int, first: Tensor, second: Tensor) -> None:
        """Counts a mini-batch; the device is waited for only when a lot is full.

        Args:
            samples: The number of its samples.
            first: How many of them the first model predicts right.
            second: How many the second model does.
        """
        self._samples += samples
        self._right = self._right.to(first.device) + torch.stack([first, second]).float()
        if self._samples >= LOT:
            self.last = [self._samples, *map(int, self._right.tolist())]
            self.lots += 1
            self._samples, self._right = 0, torch.zeros(2)

    def state(self) -> State:
        """Gives the counts, for a checkpoint."""
        return {"lots": self.lots, "last": self.last, "samples": self._samples,
                "right": self._right.cpu()}  # fmt: skip

    def load_state(self, state: State) -> None:
        """Puts back what `state` gave.

        Args:
            state: What `state` gave; empty: nothing was counted.
        """
        self.lots, self.last = int(state.get("lots", 0)), state.get("last")
        self._samples = int(state.get("samples", 0))
        self._right = state.get("right", torch.zeros(2)).clone()
