"""Perturbations: a sample becomes P slightly different copies, whose predictions are compared.

Images have the paper's twelve perturbations; eight of them move pixels by a homography, so all of
those views come from one `grid_sample`. Vectors get Gaussian noise. What is random is drawn on the
CPU from the generator passed in (of a homography, its matrix); the rest is a function of tensors
alone, the same on every device, and of few kernels on a GPU.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.compute.devices import constant
from ofcl.errors import OfclError, unknown
from ofcl.uncertainty.homographies import TURNS, WARPS, Turn, flip_matrices, turn_matrices

_DRAWS = 9  # uniform numbers a transform may use
AHEAD = 16  # mini-batches whose draws for images are made at once


class Change(ABC):
    """Samples, changed at random: what is random is drawn first, and then applied."""

    ahead: ClassVar[int] = 1  # mini-batches whose draws are best made at once

    @abstractmethod
    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Random numbers for samples of this shape, on the CPU; dimension 1 is that of samples."""

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """What so many draws give one after the other: (times, …).

        This is what is asked for: where it is another one, overriding `draw` alone changes nothing.
        """
        return torch.stack([self.draw(shape, generator) for _ in range(times)])

    @abstractmethod
    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """The samples (n, …) changed by these draws."""

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Draws and applies."""
        return self.apply(x, self.draw(x.shape, generator).to(x.device))


class Perturbation(Change):
    """A change that gives several copies of each sample: (n, …) → (views, n, …)."""


# Changes of the pixels where they are. What each is to do is worked out from its uniform draws in
# NumPy too, so that few kernels are left: a hole's centre and half side, a factor, a sum's parts.

_CUTOUTS = {"cutout-10": 10, "cutout-20": 20}  # sides of the holes


def _hole(u: np.ndarray, length: int, height: int, width: int) -> None:
    """Row and column of the centre, a half pixel up and left, and half of the side."""
    sides = np.array([height, width], dtype=np.float32)
    u[:, :2] = np.floor(u[:, :2] * sides) - 0.5
    u[:, 2] = length // 2


def _cut_out(x: Tensor, holes: Tensor, fill: Tensor) -> Tensor:
    """Images (n, C, H, W) with holes (k, n, 9) filled: (k, n, C, H, W)."""
    height, width = x.shape[-2:]
    away = (_pixels(height, width, x.device) - holes[..., None, :2]).abs()  # (k, n, H·W, 2)
    hole = (away < holes[..., None, 2:3]).all(-1).view(*holes.shape[:2], 1, height, width)
    return torch.where(hole, fill, x)


def _tint(u: np.ndarray) -> None:
    """Brightness: a factor 0.9 … 1.1."""
    u[:, 0] = 0.9 + 0.2 * u[:, 0]


def _negate(u: np.ndarray) -> None:
    """Every second image x becomes 1 - x: an offset and a factor."""
    happens = u[:, 0] < 0.5
    u[:, 0], u[:, 1] = happens, np.where(happens, -1, 1)


def _brightness(x: Tensor, draws: Tensor) -> Tensor:
    return (x * draws[:, 0].view(-1, 1, 1, 1)).clamp(0, 1)


def _invert(x: Tensor, draws: Tensor) -> Tensor:
    offset, factor = (draws[:, place].view(-1, 1, 1, 1) for place in (0, 1))
    return torch.addcmul(offset, factor, x)


_PAINTS: dict[str, tuple[Callable[[np.ndarray], None], Callable[[Tensor, Tensor], Tensor]]] = {
    "brightness": (_tint, _brightness),
    "invert": (_negate, _invert),
}

IMAGE_PERTURBATIONS = (
    "cutout-10", "cutout-20", "hflip", "vflip", "rotate-10", "rotate-45", "rotate-90",
    "brightness", "perspective", "affine", "crop", "invert",
)  # fmt: skip
"""The paper's twelve, in its order; their numbers are their places here, from 1."""


def choose_perturbations(chosen: Sequence[str]) -> tuple[str, ...]:
    """Names from names, numbers or `all`.

    >>> choose_perturbations(["3", "invert"])
    ('hflip', 'invert')
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


def _uniform(
    times: int, groups: int, n: int, draws: Literal["sample", "batch"], generator: torch.Generator
) -> Tensor:
    """Draws (times, groups, n, 9): one for each sample, or one for the whole batch."""
    if draws == "batch":
        return torch.rand(times, groups, 1, _DRAWS, generator=generator).repeat(1, 1, n, 1)
    return torch.rand(times, groups, n, _DRAWS, generator=generator)


@functools.cache
def _places(height: int, width: int, device: torch.device) -> Tensor:
    """The pixels' places (H·W, 3) in homogeneous coordinates from -1 to 1."""
    ys, xs = ((torch.arange(side) * 2 + 1) / side - 1 for side in (height, width))
    grid_y, grid_x = torch.meshgrid(ys, xs, indexing="ij")
    places = torch.stack([grid_x, grid_y, torch.ones_like(grid_x)], -1).view(-1, 3)
    return places.to(device)  # waits, so that it is there for every lane


@functools.cache
def _pixels(height: int, width: int, device: torch.device) -> Tensor:
    """The pixels' rows and columns (H·W, 2)."""
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width))
    return places.float().to(device)


def _sample(x: Tensor, matrices: Tensor, mode: str = "bilinear") -> Tensor:
    """Images (m, C, H, W) seen through homographies (m, 3, 3); black outside of the original."""
    height, width = x.shape[-2:]
    moved = _places(height, width, x.device) @ matrices.transpose(1, 2)  # (m, H·W, 3)
    grid = (moved[..., :2] / moved[..., 2:]).view(-1, height, width, 2)
    return F.grid_sample(x, grid, mode=mode, padding_mode="zeros", align_corners=False)


@dataclass(frozen=True)
class ImageViews(Perturbation):
    """One view of every image for each name.

    `mean` and `std` are those the images were normalised with; with `raw` pixels they are undone
    before and done again after.

    >>> views = ImageViews(("hflip", "invert"), mean=(0.5,), std=(0.5,))
    >>> views(torch.zeros(3, 1, 8, 8), torch.Generator()).shape
    torch.Size([2, 3, 1, 8, 8])
    """

    ahead = AHEAD
    names: tuple[str, ...] = IMAGE_PERTURBATIONS
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    draws: Literal["sample", "batch"] = "sample"
    pixels: Literal["raw", "normalised"] = "raw"
    interpolation: Literal["bilinear", "nearest"] = "bilinear"

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Nine numbers for each view and image: a homography's matrix, or what a change needs."""
        return self.draw_many(shape, generator, 1)[0]

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """What so many draws give one after the other: (times, views, n, 9)."""
        drawn = _uniform(times, len(self.names), shape[0], self.draws, generator)
        numbers = drawn.transpose(0, 1).flatten(1, 2)  # (views, times · n, 9)
        height, width = shape[-2:]
        every = numbers.numpy()
        for name, u in zip(self.names, every, strict=True):
            if name in WARPS:
                u[:] = WARPS[name](u).reshape(-1, _DRAWS)
            elif name in _CUTOUTS:
                _hole(u, _CUTOUTS[name], height, width)
            elif name in _PAINTS:
                _PAINTS[name][0](u)
        if turns := [place for place, name in enumerate(self.names) if name in TURNS]:
            asked = [TURNS[self.names[place]] for place in turns]
            matrices = turn_matrices(every[turns], asked, width / height)
            every[turns] = matrices.reshape(len(turns), -1, _DRAWS)
        return numbers.view(len(self.names), times, shape[0], _DRAWS).transpose(0, 1).contiguous()

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Images (n, C, H, W) → their views (views, n, C, H, W)."""
        mean, std = (constant(v, x.device).view(-1, 1, 1) for v in (self.mean, self.std))
        if self.pixels == "raw":
            x = x * std + mean
        drawn = dict(zip(self.names, draws, strict=True))
        moved = [n for n in self.names if n in TURNS or n in WARPS]
        turned = [n for n in moved if n in TURNS and self.interpolation == "nearest"]
        smooth = [n for n in moved if n not in turned]
        views = {n: _PAINTS[n][1](x, drawn[n]) for n in self.names if n in _PAINTS}
        if cutouts := [n for n in self.names if n in _CUTOUTS]:
            holes = torch.stack([drawn[name] for name in cutouts])
            views |= zip(cutouts, _cut_out(x, holes, mean), strict=True)
        for names, mode in ((turned, "nearest"), (smooth, "bilinear")):
            if names:
                matrices = torch.cat([drawn[name] for name in names]).view(-1, 3, 3)
                copies = _sample(x.repeat(len(names), 1, 1, 1), matrices, mode)
                views |= zip(names, copies.view(len(names), *x.shape), strict=True)
        stacked = torch.stack([views[name] for name in self.names])
        return (stacked - mean) / std if self.pixels == "raw" else stacked


@dataclass(frozen=True)
class NoisyCopies(Perturbation):
    """The perturbation of vectors: copies with Gaussian noise.

    >>> NoisyCopies(0.1, 5)(torch.zeros(3, 4), torch.Generator()).shape
    torch.Size([5, 3, 4])
    """

    std: float = 0.1
    copies: int = 5

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Normal numbers (copies, n, …)."""
        return torch.randn(self.copies, *shape, generator=generator)

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Vectors (n, …) → noisy ones (copies, n, …)."""
        return x + self.std * draws


@dataclass(frozen=True)
class FlipAndRotate(Change):
    """The training augmentation of images: a horizontal flip half of the time, then ±20°."""

    ahead = AHEAD
    draws: Literal["sample", "batch"] = "sample"
    interpolation: Literal["bilinear", "nearest"] = "bilinear"

    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Homographies (1, n, 9)."""
        return self.draw_many(shape, generator, 1)[0]

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """What so many draws give one after the other: (times, 1, n, 9)."""
        drawn = _uniform(times, 2, shape[0], self.draws, generator)
        flip, rotate = drawn.transpose(0, 1).flatten(1, 2).numpy()
        (turned,) = turn_matrices(rotate[None], [Turn(20)], shape[-1] / shape[-2])
        matrices = flip_matrices(flip, -1, 1) @ turned
        return torch.from_numpy(matrices).view(times, 1, -1, _DRAWS)

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Images (n, C, H, W) → as many others."""
        return _sample(x, draws.view(-1, 3, 3), self.interpolation)
