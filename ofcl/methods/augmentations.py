"""Augmentations: random changes of the samples that a model learns from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ofcl.uncertainty.change import Change
from ofcl.uncertainty.homographies import flip_matrices
from ofcl.uncertainty.image_operations import NUMBERS, warp
from ofcl.uncertainty.perturbations import AHEAD

SHIFT = 1 / 8  # of the side: how far an image is shifted at most
CONTRAST, BRIGHTNESS, GREY = 0.4, 0.4, 0.2  # factor 1 ± 0.4, sum ± 0.4, share of grey images


@dataclass(frozen=True)
class FlipAndShift(Change):
    """Images are flipped half of the time and shifted by up to an eighth of their side.

    Args:
        colours: Whether contrast (× 0.6 to 1.4 about the image's mean) and brightness (± 0.4, in
            normalised units) change too, and every fifth image becomes grey.
    """

    ahead = AHEAD
    colours: bool = False

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws (1, n, 12) numbers: a homography, and what the colours need."""
        return self.draw_many(shape, generator, 1)[0]

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """Draws for several mini-batches of one shape: (times, 1, n, 12)."""
        n, sides = shape[0], np.array(shape[-2:])
        u = torch.rand(times * n, 6, generator=generator).numpy()
        matrices = np.broadcast_to(np.eye(3, dtype=np.float32), (len(u), 3, 3)).copy()
        most = np.maximum(np.round(sides * SHIFT), 1)
        pixels = np.floor(u[:, 1:3] * (2 * most + 1)) - most  # whole pixels: nothing is blurred
        matrices[:, :2, 2] = (2 * pixels / sides)[:, ::-1]
        flips = np.repeat(u[:, :1], NUMBERS, 1)
        moved = flip_matrices(flips, -1, 1) @ matrices
        colours = np.stack(
            [1 + CONTRAST * (2 * u[:, 3] - 1), BRIGHTNESS * (2 * u[:, 4] - 1), u[:, 5] < GREY], 1
        )
        numbers = np.concatenate([moved.reshape(-1, NUMBERS), colours], 1)
        return torch.from_numpy(numbers.astype(np.float32)).view(times, 1, n, -1)

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Changes images (n, C, H, W) to as many others."""
        numbers = draws.flatten(0, 1)
        x = warp(x, numbers[:, :NUMBERS].reshape(-1, 3, 3), "nearest")
        if not self.colours:
            return x
        contrast, brightness, grey = numbers[:, NUMBERS:].view(-1, 3, 1, 1, 1).unbind(1)
        mean = x.mean((1, 2, 3), keepdim=True)
        x = (x - mean) * contrast + mean + brightness
        return torch.lerp(x, x.mean(1, keepdim=True).expand_as(x), grey)


@dataclass(frozen=True)
class Noise(Change):
    """Vectors get Gaussian noise.

    Args:
        share: The deviation of the noise, as a share of the root mean square of a sample's numbers.
    """

    share: float = 0.1

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws normal numbers (1, n, …)."""
        return torch.randn(1, *shape, generator=generator)

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Changes vectors (n, …) to as many others."""
        size = x.flatten(1).pow(2).mean(1).sqrt().view(-1, *(1,) * (x.dim() - 1))
        return x + self.share * size * draws.flatten(0, 1)
