"""Perturbations: a sample becomes several slightly different copies, whose predictions differ.

Images have the paper's twelve perturbations. Eight of them move pixels by a homography, so one
`grid_sample` makes all of these copies. Vectors get Gaussian noise. Of texts, tokens are hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ofcl.compute.devices import constant
from ofcl.errors import OfclError, unknown
from ofcl.uncertainty.change import Perturbation
from ofcl.uncertainty.homographies import TURNS, WARPS, turn_matrices
from ofcl.uncertainty.image_operations import (
    CUTOUTS,
    NUMBERS,
    RECOLOURINGS,
    cut_out,
    place_holes,
    warp,
)

AHEAD = 16  # mini-batches of images to draw for at once

IMAGE_PERTURBATIONS = (
    "cutout-10", "cutout-20", "hflip", "vflip", "rotate-10", "rotate-45", "rotate-90",
    "brightness", "perspective", "affine", "crop", "invert",
)  # fmt: skip
"""The paper's twelve perturbations in its order, which numbers them from 1."""


def choose_perturbations(chosen: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the chosen perturbations, each once.

    >>> choose_perturbations(["3", "invert"])
    ('hflip', 'invert')

    Args:
        chosen: Names, numbers from 1 to 12, or `all`.

    Raises:
        OfclError: If nothing is chosen, or a name is not known.
    """
    names: list[str] = []
    if not chosen:
        raise OfclError("perturbations is empty; name at least one, or 'all'")
    for item in chosen:
        if item == "all":
            names += IMAGE_PERTURBATIONS
        elif item.isdigit() and 1 <= int(item) <= len(IMAGE_PERTURBATIONS):
            names.append(IMAGE_PERTURBATIONS[int(item) - 1])
        elif item in IMAGE_PERTURBATIONS:
            names.append(item)
        else:
            numbers = f"1-{len(IMAGE_PERTURBATIONS)}"
            raise unknown("perturbation", item, [*IMAGE_PERTURBATIONS, "all", numbers])
    return tuple(dict.fromkeys(names))


def draw_uniform(
    times: int, groups: int, n: int, draws: Literal["sample", "batch"], generator: torch.Generator
) -> Tensor:
    """Draws uniform numbers from 0 to 1, (times, groups, n, 9).

    Args:
        times: The number of mini-batches.
        groups: The number of operations that need nine numbers each.
        n: The number of samples in a mini-batch.
        draws: `sample`: every sample has its own numbers; `batch`: all of a mini-batch have the
            same.
        generator: The generator to draw from.
    """
    if draws == "batch":
        return torch.rand(times, groups, 1, NUMBERS, generator=generator).repeat(1, 1, n, 1)
    return torch.rand(times, groups, n, NUMBERS, generator=generator)


@dataclass(frozen=True)
class ImageViews(Perturbation):
    """The perturbed copies (views) of images: one view of each image for every perturbation.

    >>> views = ImageViews(("hflip", "invert"), mean=(0.5,), std=(0.5,))
    >>> views(torch.zeros(3, 1, 8, 8), torch.Generator()).shape
    torch.Size([2, 3, 1, 8, 8])

    Args:
        names: The perturbations, by their names in `IMAGE_PERTURBATIONS`.
        mean: The mean of each channel that the images were normalised with.
        std: The standard deviation of each channel that the images were normalised with.
        draws: `sample`: every image is changed in its own way; `batch`: all in the same way.
        pixels: `raw`: pixels from 0 to 1 are changed, and normalised again; `normalised`: pixels
            are changed as they are, as in the paper's released code.
        interpolation: The interpolation of rotations and the affine map; the other perturbations
            are always bilinear.
    """

    ahead = AHEAD
    names: tuple[str, ...] = IMAGE_PERTURBATIONS
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    draws: Literal["sample", "batch"] = "sample"
    pixels: Literal["raw", "normalised"] = "raw"
    interpolation: Literal["bilinear", "nearest"] = "bilinear"

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws the numbers for a mini-batch: nine for each view and image.

        The nine numbers are a homography, or those that another kind of perturbation needs.

        Args:
            shape: The shape of the mini-batch (n, C, H, W).
            generator: The generator to draw from.

        Returns:
            Numbers (views, n, 9).
        """
        return self.draw_many(shape, generator, 1)[0]

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """Draws the numbers for several mini-batches of one shape.

        Args:
            shape: The shape of each mini-batch (n, C, H, W).
            generator: The generator to draw from.
            times: The number of mini-batches.

        Returns:
            Numbers (times, views, n, 9).
        """
        drawn = draw_uniform(times, len(self.names), shape[0], self.draws, generator)
        numbers = drawn.transpose(0, 1).flatten(1, 2)  # (views, times · n, 9)
        height, width = shape[-2:]
        u_of_views = numbers.numpy()  # changed in place
        for name, u in zip(self.names, u_of_views, strict=True):
            if name in WARPS:
                u[:] = WARPS[name](u).reshape(-1, NUMBERS)
            elif name in CUTOUTS:
                place_holes(u, CUTOUTS[name], height, width)
            elif name in RECOLOURINGS:
                RECOLOURINGS[name].prepare(u)
        if places := [place for place, name in enumerate(self.names) if name in TURNS]:
            turns = [TURNS[self.names[place]] for place in places]
            matrices = turn_matrices(u_of_views[places], turns, width / height)
            u_of_views[places] = matrices.reshape(len(places), -1, NUMBERS)
        of_times = numbers.view(len(self.names), times, shape[0], NUMBERS).transpose(0, 1)
        return of_times.contiguous()

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Makes the views of images.

        Args:
            x: The images (n, C, H, W).
            draws: The numbers that `draw` returned, on the same device.

        Returns:
            The views (views, n, C, H, W).
        """
        mean, std = (constant(v, x.device).view(-1, 1, 1) for v in (self.mean, self.std))
        if self.pixels == "raw":
            x = x * std + mean
        drawn = dict(zip(self.names, draws, strict=True))
        views = {n: RECOLOURINGS[n].apply(x, drawn[n]) for n in self.names if n in RECOLOURINGS}
        if cutouts := [name for name in self.names if name in CUTOUTS]:
            holes = torch.stack([drawn[name] for name in cutouts])
            views |= zip(cutouts, cut_out(x, holes, mean), strict=True)
        for mode, names in self._by_interpolation().items():
            if names:
                matrices = torch.cat([drawn[name] for name in names]).view(-1, 3, 3)
                copies = warp(x.repeat(len(names), 1, 1, 1), matrices, mode)
                views |= zip(names, copies.view(len(names), *x.shape), strict=True)
        stacked = torch.stack([views[name] for name in self.names])
        return (stacked - mean) / std if self.pixels == "raw" else stacked

    def _by_interpolation(self) -> dict[str, list[str]]:
        """Lists the names of the perturbations that move pixels, for each interpolation."""
        moving = [name for name in self.names if name in TURNS or name in WARPS]
        nearest = [n for n in moving if n in TURNS and self.interpolation == "nearest"]
        return {"nearest": nearest, "bilinear": [n for n in moving if n not in nearest]}


@dataclass(frozen=True)
class MaskedCopies(Perturbation):
    """Copies of texts, as token ids, in which some tokens are hidden.

    A model that is sure of a text is so without a few of its words. The first token of a text,
    which begins it, and padding are never hidden.

    >>> copies = MaskedCopies(0.5, 2, mask=9)(torch.tensor([[1, 5, 6, 0]]), torch.Generator())
    >>> copies.shape, copies[:, :, 0].tolist(), copies[:, :, 3].tolist()
    (torch.Size([2, 1, 4]), [[1], [1]], [[0], [0]])

    Args:
        share: The share of tokens that is hidden.
        copies: The number of copies of each text.
        mask: The token that stands for a hidden one.
        padding: The token that fills up short texts.
    """

    share: float = 0.15
    copies: int = 5
    mask: int = 0
    padding: int = 0

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws a number from 0 to 1 for each token of a mini-batch.

        Args:
            shape: The shape of the mini-batch (n, length).
            generator: The generator to draw from.

        Returns:
            Uniform numbers (copies, n, length).
        """
        drawn = torch.rand(self.copies, *shape, generator=generator)
        drawn[..., 0] = 1.0
        return drawn

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Makes copies of texts with hidden tokens.

        Args:
            x: The token ids (n, length).
            draws: The numbers that `draw` returned, on the same device.

        Returns:
            The copies (copies, n, length).
        """
        hidden = (draws < self.share) & (x != self.padding)
        return torch.where(hidden, torch.full_like(x, self.mask), x)


@dataclass(frozen=True)
class NoisyCopies(Perturbation):
    """Copies of vectors with Gaussian noise.

    >>> NoisyCopies(0.1, 5)(torch.zeros(3, 4), torch.Generator()).shape
    torch.Size([5, 3, 4])

    Args:
        std: The standard deviation of the noise.
        copies: The number of copies of each vector.
    """

    std: float = 0.1
    copies: int = 5

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draws the noise for a mini-batch, with standard deviation 1.

        Args:
            shape: The shape of the mini-batch (n, …).
            generator: The generator to draw from.

        Returns:
            Normal numbers (copies, n, …).
        """
        return torch.randn(self.copies, *shape, generator=generator)

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Makes noisy copies of vectors.

        Args:
            x: The vectors (n, …).
            draws: The numbers that `draw` returned, on the same device.

        Returns:
            The copies (copies, n, …).
        """
        return x + self.std * draws
