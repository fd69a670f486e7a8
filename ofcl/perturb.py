"""Perturbations: a sample becomes P slightly different copies, whose predictions are compared.

Images have the paper's twelve perturbations; eight of them move pixels by a homography, so all of
those views come from one `grid_sample`. Vectors get Gaussian noise. What is random is drawn on the
CPU from the generator passed in (of a homography, its matrix); the rest is a function of tensors
alone, the same on every device, and of few kernels on a GPU.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.devices import constant
from ofcl.errors import OfclError, unknown

_DRAWS = 9  # uniform numbers a transform may use
AHEAD = 16  # draws for images at once


class Change(ABC):
    """Samples, changed at random: what is random is drawn first, and then applied."""

    ahead: ClassVar[int] = 1  # draws that are best made at once

    @abstractmethod
    def draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Random numbers for samples of this shape, on the CPU; dimension 1 is that of samples."""

    def draw_many(self, shape: torch.Size, generator: torch.Generator, times: int) -> Tensor:
        """What so many draws give one after the other: (times, …)."""
        return torch.stack([self.draw(shape, generator) for _ in range(times)])

    @abstractmethod
    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """The samples (n, …) changed by these draws."""

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Draws and applies."""
        return self.apply(x, self.draw(x.shape, generator).to(x.device))


class Perturbation(Change):
    """A change that gives several copies of each sample: (n, …) → (views, n, …)."""


# Homographies. Each takes uniform draws u (n, 9) and gives matrices (n, 3, 3) that lead from a
# place in the perturbed image to the place in the original, both in coordinates from -1 to 1.
# In NumPy: these are hundreds of operations on a handful of numbers, which PyTorch starts slowly.
# For as many numbers as sixteen mini-batches need, they take little longer.


def _matrices(n: int, elements: Sequence[np.ndarray | float]) -> np.ndarray:
    """Matrices (n, 3, 3) of nine elements (n,) or numbers."""
    matrices = np.empty((n, 9), dtype=np.float32)
    for place, element in enumerate(elements):
        matrices[:, place] = element
    return matrices.reshape(n, 3, 3)


def _flip(u: np.ndarray, x_sign: int, y_sign: int) -> np.ndarray:
    happens = u[:, 0] < 0.5
    x, y = (np.where(happens, sign, 1) for sign in (x_sign, y_sign))
    return _matrices(len(u), [x, 0, 0, 0, y, 0, 0, 0, 1])


@dataclass(frozen=True)
class _Turn:
    """Turned about the centre and scaled, then moved: up to so far, at random."""

    degrees: float
    move: tuple[float, float] = (0.0, 0.0)  # of the width and of the height
    scale: tuple[float, float] = (1.0, 1.0)

    @property
    def limits(self) -> tuple[float, ...]:
        """Angle, moves where the width is 2, the least scale and how far it is to the most."""
        least, most = self.scale
        return math.radians(self.degrees), 2 * self.move[0], 2 * self.move[1], least, most - least


_TURNS = {
    "rotate-10": _Turn(10),
    "rotate-45": _Turn(45),
    "rotate-90": _Turn(90),
    "affine": _Turn(20, move=(0.1, 0.3), scale=(0.5, 0.75)),
}


def _turned(u: np.ndarray, turns: Sequence[_Turn], aspect: float) -> np.ndarray:
    """Matrices (k, n, 3, 3) of k turns; a loop over them would take four times as long."""
    limits = np.array([turn.limits for turn in turns], dtype=np.float32)[:, :, None]
    angle = torch.from_numpy(limits[:, 0] * (2 * u[..., 0] - 1))  # PyTorch's cosine and sine
    right, down = (limits[:, place] * (2 * u[..., place] - 1) for place in (1, 2))
    scale = limits[:, 3] + limits[:, 4] * u[..., 3]
    cosine, sine = angle.cos().numpy() / scale, angle.sin().numpy() / scale
    a, b, c = cosine, sine / aspect, -sine * aspect
    x, y = -(a * right + b * down), -(c * right + a * down)
    elements = [element.reshape(-1) for element in (a, b, x, c, a, y)]
    return _matrices(a.size, [*elements, 0, 0, 1]).reshape(*a.shape, 3, 3)


def _crop(u: np.ndarray) -> np.ndarray:
    """A piece of 0.8 … 1 of the area, with side ratio 0.9 … 1.1, enlarged to the whole."""
    area = 0.8 + 0.2 * u[:, 0]
    logarithm = math.log(0.9) + (math.log(1.1) - math.log(0.9)) * u[:, 1]
    ratio = torch.from_numpy(logarithm).exp().numpy()
    sides = torch.from_numpy(np.stack([area * ratio, area / ratio])).sqrt()
    width, height = sides.clamp(max=1).numpy()
    x, y = (1 - width) * (2 * u[:, 2] - 1), (1 - height) * (2 * u[:, 3] - 1)
    return _matrices(len(u), [width, 0, x, 0, height, y, 0, 0, 1])


_CORNERS = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=np.float32)


def _perspective(u: np.ndarray) -> np.ndarray:
    """Each corner moves inwards by up to a quarter of the side; happens to every second image.

    The homography from the unit square to a quadrilateral has a closed form (Heckbert 1989); its
    adjugate is the way back, up to a factor that homographies do not see.
    """
    inward = 0.5 * u[:, 1:9].reshape(-1, 4, 2)  # from -1 to 1: half of the half side
    quad = _CORNERS - _CORNERS * inward  # (n, 4, 2)
    (x0, x1, x2, x3), (y0, y1, y2, y3) = quad.transpose(2, 1, 0)
    sx, sy = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    dx1, dy1, dx2, dy2 = x1 - x2, y1 - y2, x3 - x2, y3 - y2
    det = dx1 * dy2 - dx2 * dy1
    g, h = (sx * dy2 - dx2 * sy) / det, (dx1 * sy - sx * dy1) / det
    a, b, c = x1 - x0 + g * x1, x3 - x0 + h * x3, x0
    d, e, f = y1 - y0 + g * y1, y3 - y0 + h * y3, y0
    adjugate = [e - f * h, c * h - b, b * f - c * e, f * g - d, a - c * g,
                c * d - a * f, d * h - e * g, b * g - a * h, a * e - b * d]  # fmt: skip
    back = _matrices(len(u), adjugate)
    back[:, :2] = 2 * back[:, :2] - back[:, 2:]  # from the unit square to sides from -1 to 1
    back[u[:, 0] >= 0.5] = np.eye(3)
    return back


_WARPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "hflip": lambda u: _flip(u, -1, 1),
    "vflip": lambda u: _flip(u, 1, -1),
    "perspective": _perspective,
    "crop": _crop,
}


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
            if name in _WARPS:
                u[:] = _WARPS[name](u).reshape(-1, _DRAWS)
            elif name in _CUTOUTS:
                _hole(u, _CUTOUTS[name], height, width)
            elif name in _PAINTS:
                _PAINTS[name][0](u)
        if turns := [place for place, name in enumerate(self.names) if name in _TURNS]:
            asked = [_TURNS[self.names[place]] for place in turns]
            matrices = _turned(every[turns], asked, width / height)
            every[turns] = matrices.reshape(len(turns), -1, _DRAWS)
        return numbers.view(-1, times, shape[0], _DRAWS).transpose(0, 1).contiguous()

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Images (n, C, H, W) → their views (views, n, C, H, W)."""
        mean, std = (constant(v, x.device).view(-1, 1, 1) for v in (self.mean, self.std))
        if self.pixels == "raw":
            x = x * std + mean
        drawn = dict(zip(self.names, draws, strict=True))
        moved = [n for n in self.names if n in _TURNS or n in _WARPS]
        turned = [n for n in moved if n in _TURNS and self.interpolation == "nearest"]
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
        (turned,) = _turned(rotate[None], [_Turn(20)], shape[-1] / shape[-2])
        matrices = _flip(flip, -1, 1) @ turned
        return torch.from_numpy(matrices).view(times, 1, -1, _DRAWS)

    def apply(self, x: Tensor, draws: Tensor) -> Tensor:
        """Images (n, C, H, W) → as many others."""
        return _sample(x, draws.view(-1, 3, 3), self.interpolation)
