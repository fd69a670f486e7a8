"""Augmentations: random changes of the samples that a model learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ofcl.uncertainty.change import Change
from ofcl.uncertainty.homographies import Turn, flip_matrices, turn_matrices
from ofcl.uncertainty.image_operations import NUMBERS, warp
from ofcl.uncertainty.perturbations import AHEAD, draw_uniform

SHIFT = 1 / 8  # of the side: how far an image is shifted at most
CONTRAST, BRIGHTNESS, GREY = 0.4, 0.4, 0.2  # factor 1 ± 0.4, sum ± 0.4, share of grey images


@dataclass(frozen=True)
class FlipAndRotate(Change):
    """An augmentation that flips half of the images left to right, then turns all by up to 20°.

    Args:
        draws: `sample`: every image is changed in its own way; `batch`: all in the same way.
        interpolation: How a pixel that falls between others gets its value.
    """

    ahead = AHEAD
    draws: Literal["sample", "batch"] = "sample"
    interpolation: Literal["bilinear", "nearest"] = "bilinear"

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws one homography for each image of a mini-batch.

        Args:
            shape: The shape of the mini-batch (n, C, H, W).
            generator: The generator to draw from.

        Returns:
            Homographies (1, n, 9).
        """
        return self.draw_many(shape, generator, 1)[0]

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """Draws the homographies for several mini-batches of one shape.

        Args:
            shape: The shape of each mini-batch (n, C, H, W).
            generator: The generator to draw from.
            times: The number of mini-batches.

        Returns:
            Homographies (times, 1, n, 9).
        """
        drawn = draw_uniform(times, 2, shape[0], self.draws, generator)
        flip, rotate = drawn.transpose(0, 1).flatten(1, 2).numpy()
        (turned,) = turn_matrices(rotate[None], [Turn(20)], shape[-1] / shape[-2])
        matrices = flip_matrices(flip, -1, 1) @ turned
        return torch.from_numpy(matrices).view(times, 1, -1, NUMBERS)

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Flips and rotates images.

        Args:
            x: The images (n, C, H, W).
            draws: The homographies that `draw` returned, on the same device.

        Returns:
            The changed images (n, C, H, W).
        """
        return warp(x, draws.view(-1, 3, 3), self.interpolation)


@dataclass(frozen=True)
class FlipAndShift(Change):
    """An augmentation that flips half of the images and shifts all by up to an eighth of a side.

    Args:
        colours: Whether contrast (× 0.6 to 1.4 about the image's mean) and brightness (± 0.4, in
            normalised units) change too, and every fifth image becomes grey.
    """

    ahead = AHEAD
    colours: bool = False

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws the random numbers for a mini-batch.

        Args:
            shape: The shape of the mini-batch (n, C, H, W).
            generator: The generator to draw from.

        Returns:
            (1, n, 12): for each image the nine numbers of a homography (flip and shift), then
            contrast, brightness and whether it becomes grey.
        """
        return self.draw_many(shape, generator, 1)[0]

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """Draws the random numbers for several mini-batches of one shape.

        Args:
            shape: The shape of each mini-batch (n, C, H, W).
            generator: The generator to draw from.
            times: The number of mini-batches.

        Returns:
            (times, 1, n, 12): the numbers that `draw` would return for each mini-batch.
        """
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
        """Returns changed images, one for each given image.

        Args:
            x: The images (n, C, H, W).
            draws: The numbers (1, n, 12) that `draw` returned, on the same device.
        """
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
    """An augmentation that adds Gaussian noise to vectors.

    Args:
        share: The standard deviation of the noise, as a share of the root mean square of the
            numbers of a sample.
    """

    share: float = 0.1

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws a standard normal number (1, n, …) for each number of a mini-batch.

        Args:
            shape: The shape of the mini-batch (n, …).
            generator: The generator to draw from.
        """
        return torch.randn(1, *shape, generator=generator)

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Returns vectors with noise, one for each given vector.

        Args:
            x: The vectors (n, …).
            draws: The numbers (1, n, …) that `draw` returned, on the same device.
        """
        size = x.flatten(1).pow(2).mean(1).sqrt().view(-1, *(1,) * (x.dim() - 1))
        return x + self.share * size * draws.flatten(0, 1)
