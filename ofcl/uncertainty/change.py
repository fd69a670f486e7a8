"""The contract of random changes of samples: augmentations, and perturbations for scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor


class Change(ABC):
    """A random change of samples in two steps: `draw` draws random numbers, `apply` uses them.

    Numbers are drawn on the CPU, so they are the same for every device. Applying them is a function
    of tensors alone, which a CUDA graph can replay.
    """

    ahead: ClassVar[int] = 1
    """The number of mini-batches for which drawing at once is fastest."""

    @abstractmethod
    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws the random numbers for a mini-batch.

        Args:
            shape: The shape of the mini-batch (n, …).
            generator: The generator to draw from.

        Returns:
            Numbers on the CPU, (k, n, …): the second dimension is that of the samples; the change
            decides all others.
        """

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """Draws the numbers for several mini-batches of one shape, the same as `draw` in a loop.

        `Draws` calls this method, never `draw`; override both.

        Args:
            shape: The shape of each mini-batch (n, …).
            generator: The generator to draw from.
            times: The number of mini-batches.

        Returns:
            The numbers of all mini-batches, (times, k, n, …).
        """
        return torch.stack([self.draw(shape, generator) for _ in range(times)])

    @abstractmethod
    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Changes samples by the numbers that `draw` returned.

        Args:
            x: The samples (n, …).
            draws: The numbers, on the samples' device.

        Returns:
            The changed samples, (n, …); of a `Perturbation`, its copies (views, n, …).
        """

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Draws random numbers for samples and changes the samples by them.

        Args:
            x: The samples (n, …).
            generator: The generator to draw from.

        Returns:
            The changed samples, (n, …); of a `Perturbation`, its copies (views, n, …).
        """
        return self.apply(x, self.draw(x.shape, generator).to(x.device))


class Perturbation(Change):
    """A change that makes several copies of each sample: (n, …) → (views, n, …)."""
