"""The samples of a memory, on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ofcl.compute.devices import to_device


class Store:
    """Room for samples and their classes, at places 0, 1, … on a device.

    Args:
        places: The number of samples that fit in.
        device: The device that keeps them; None: the device of the first sample.
    """

    def __init__(self, places: int, device: torch.device | None) -> None:
        self._places, self._device = places, device
        self.x = torch.empty(0)  # (places, …); made when the first sample shows its shape
        self.y = torch.empty(0, dtype=torch.long)  # (places,)

    def reserve(self, like: Tensor) -> None:
        """Makes the tensors that the samples are kept in; does nothing if they are made already.

        Args:
            like: Samples (n, …) of the shape and type to be kept.
        """
        if not len(self.x):
            self.x = like.new_zeros(self._places, *like.shape[1:], device=self._device)
            self.y = torch.zeros(self._places, dtype=torch.long, device=self.x.device)

    def put(self, places: np.ndarray, x: Tensor, rows: np.ndarray, y: np.ndarray) -> None:
        """Copies samples of a batch to some places.

        Args:
            places: The places (n,) to copy to.
            x: The batch, on the store's device.
            rows: The indices (n,) of the samples in the batch.
            y: The classes of these samples (n,).
        """
        at, source, classes = to_device(np.stack([places, rows, y]), self.x.device)
        self.x.index_copy_(0, at, x.index_select(0, source))
        self.y.index_copy_(0, at, classes)

    def take(self, places: np.ndarray) -> Tensor:
        """Returns copies of the samples at some places.

        Args:
            places: The places (n,).
        """
        return self.x.index_select(0, to_device(places, self.x.device))
