"""The samples of a memory, on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ofcl.compute.devices import to_device


class Store:
    """Room for samples and their classes at places 0, 1, … on the device.

    Args:
        places: How many samples fit in.
        device: Where they lie; None: where the first one is.
    """

    def __init__(self, places: int, device: torch.device | None) -> None:
        self._places, self._device = places, device
        self.x = torch.empty(0)  # (places, …); made when the first sample shows its shape
        self.y = torch.empty(0, dtype=torch.long)  # (places,)

    def reserve(self, like: Tensor) -> None:
        """Makes room for samples like these, if there is none yet."""
        if not len(self.x):
            self.x = like.new_zeros(self._places, *like.shape[1:], device=self._device)
            self.y = torch.zeros(self._places, dtype=torch.long, device=self.x.device)

    def put(self, places: np.ndarray, x: Tensor, rows: np.ndarray, y: np.ndarray) -> None:
        """Puts samples in these places.

        Args:
            places: Where they go.
            x: A batch on the device that they are in.
            rows: Which samples of the batch they are.
            y: Their classes.
        """
        at, source, classes = to_device(np.stack([places, rows, y]), self.x.device)
        self.x.index_copy_(0, at, x.index_select(0, source))
        self.y.index_copy_(0, at, classes)

    def take(self, places: np.ndarray) -> Tensor:
        """Returns the samples at these places."""
        return self.x.index_select(0, to_device(places, self.x.device))
