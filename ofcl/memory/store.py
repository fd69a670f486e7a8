"""The samples of a memory, on the device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.compute.devices import to_device
from ofcl.state import Tensors

LOGITS = "logits"
"""The name of a further tensor that has a value for each class, and so grows with the head."""


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
        self.extras: Tensors = {}  # (places, …) by name; most methods have none

    def reserve(self, like: Tensor) -> None:
        """Makes the tensors that the samples are kept in; does nothing if they are made already.

        Args:
            like: Samples (n, …) of the shape and type to be kept.
        """
        if not len(self.x):
            self.x = like.new_zeros(self._places, *like.shape[1:], device=self._device)
            self.y = torch.zeros(self._places, dtype=torch.long, device=self.x.device)

    def put(
        self,
        places: np.ndarray,
        x: Tensor,
        rows: np.ndarray,
        y: np.ndarray,
        extras: Mapping[str, Tensor] = {},
    ) -> None:
        """Copies samples of a batch to some places.

        Args:
            places: The places (n,) to copy to.
            x: The batch, on the store's device.
            rows: The indices (n,) of the samples in the batch.
            y: The classes of these samples (n,).
            extras: Further tensors of the whole batch by name, of floats, on the store's device.
        """
        at, source, classes = to_device(np.stack([places, rows, y]), self.x.device)
        self.x.index_copy_(0, at, x.index_select(0, source))
        self.y.index_copy_(0, at, classes)
        for name, values in extras.items():
            if name not in self.extras:
                self.extras[name] = values.new_full((self._places, *values.shape[1:]), torch.nan)
            self.extras[name].index_copy_(0, at, values.index_select(0, source))

    def grow(self, classes: int) -> None:
        """Widens the remembered logits to more classes; those that were not known are NaN.

        Args:
            classes: The number of classes now.
        """
        if (logits := self.extras.get(LOGITS)) is not None and logits.shape[1] < classes:
            missing = classes - logits.shape[1]
            self.extras[LOGITS] = F.pad(logits, (0, missing), value=torch.nan)

    def take(self, places: np.ndarray) -> Tensor:
        """Returns copies of the samples at some places.

        Args:
            places: The places (n,).
        """
        return self.x.index_select(0, to_device(places, self.x.device))
