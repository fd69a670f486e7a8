"""Perturbations: a sample becomes P slightly different copies, whose predictions are compared.

A `Perturbation` is a function of samples and a generator. Images have the paper's twelve; eight of
them move pixels by a homography, so all of those views come from one `grid_sample`. Vectors get
Gaussian noise. Every draw comes from the generator passed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.errors import OfclError, unknown

Perturbation = Callable[[Tensor, torch.Generator], Tensor]
"""Samples (n, …) and a generator → their perturbed copies (views, n, …)."""

_DRAWS = 9  # uniform numbers a transform may use


# Homographies. Each takes uniform draws u (n, 9) and gives matrices (n, 3, 3) that lead from a
# place in the perturbed image to the place in the original, both in coordinates from -1 to 1.


def _flip(u: Tensor, x_sign: int, y_sign: int) -> Tensor:
    matrix = torch.eye(3).repeat(len(u), 1, 1)
    happens = u[:, 0] < 0.5
    matrix[happens, 0, 0] = x_sign
    matrix[happens, 1, 1] = y_sign
    return matrix


def _similarity(angle: Tensor, scale: Tensor, dx: Tensor, dy: Tensor, aspect: float) -> Tensor:
    """Rotates by `angle` (radians) and zooms about the centre, then moves by (dx, dy)."""
    cos, sin = angle.cos() / scale, angle.sin() / scale
    matrix = torch.zeros(len(angle), 3, 3)
    matrix[:, 0, 0], matrix[:, 0, 1] = cos, sin / aspect
    matrix[:, 1, 0], matrix[:, 1, 1] = -sin * aspect, cos
    matrix[:, 2, 2] = 1
    shift = torch.eye(3).repeat(len(angle), 1, 1)
    shift[:, 0, 2], shift[:, 1, 2] = -dx, -dy
    return matrix @ shift


def _rotate(u: Tensor, degrees: float, aspect: float) -> Tensor:
    angle = math.radians(degrees) * (2 * u[:, 0] - 1)
    one, zero = torch.ones(len(u)), torch.zeros(len(u))
    return _similarity(angle, one, zero, zero, aspect)


def _affine(u: Tensor, aspect: float) -> Tensor:
    """20°, moved by up to 0.1 of the width and 0.3 of the height, scaled to 0.5 … 0.75."""
    angle = math.radians(20) * (2 * u[:, 0] - 1)
    dx, dy = 0.2 * (2 * u[:, 1] - 1), 0.6 * (2 * u[:, 2] - 1)  # the width of [-1, 1] is 2
    return _similarity(angle, 0.5 + 0.25 * u[:, 3], dx, dy, aspect)


def _crop(u: Tensor) -> Tensor:
    """A piece of 0.8 … 1 of the area, with side ratio 0.9 … 1.1, enlarged to the whole."""
    area = 0.8 + 0.2 * u[:, 0]
    ratio = torch.exp(math.log(0.9) + (math.log(1.1) - math.log(0.9)) * u[:, 1])
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    matrix = torch.zeros(len(u), 3, 3)
    matrix[:, 0, 0], matrix[:, 1, 1], matrix[:, 2, 2] = width, height, 1
    matrix[:, 0, 2] = (1 - width) * (2 * u[:, 2] - 1)
    matrix[:, 1, 2] = (1 - height) * (2 * u[:, 3] - 1)
    return matrix


def _perspective(u: Tensor) -> Tensor:
    """Each corner moves inwards by up to a quarter of the side; happens to every second image.

    The homography from the unit square to a quadrilateral has a closed form (Heckbert 1989); its
    adjugate is the way back, up to a factor that homographies do not see.
    """
    inward = 0.5 * u[:, 1:9].view(-1, 4, 2)  # in coordinates from -1 to 1: half of the half side
    corners = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    quad = corners - corners * inward  # (n, 4, 2)
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = (quad[:, i].unbind(-1) for i in range(4))
    sx, sy = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    dx1, dy1, dx2, dy2 = x1 - x2, y1 - y2, x3 - x2, y3 - y2
    det = dx1 * dy2 - dx2 * dy1
    g, h = (sx * dy2 - dx2 * sy) / det, (dx1 * sy - sx * dy1) / det
    a, b, c = x1 - x0 + g * x1, x3 - x0 + h * x3, x0
    d, e, f = y1 - y0 + g * y1, y3 - y0 + h * y3, y0
    back = torch.stack(
        [e - f * h, c * h - b, b * f - c * e, f * g - d, a - c * g, c * d - a * f,
         d * h - e * g, b * g - a * h, a * e - b * d], -1).view(-1, 3, 3)  # fmt: skip
    unit_to_sides = torch.tensor([[2.0, 0.0, -1.0], [0.0, 2.0, -1.0], [0.0, 0.0, 1.0]])
    happens = (u[:, 0] < 0.5).view(-1, 1, 1)
    return torch.where(happens, unit_to_sides @ back, torch.eye(3))


_WARPS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "hflip": lambda u, _: _flip(u, -1, 1),
    "vflip": lambda u, _: _flip(u, 1, -1),
    "rotate-10": lambda u, aspect: _rotate(u, 10, aspect),
    "rotate-45": lambda u, aspect: _rotate(u, 45, aspect),
    "rotate-90": lambda u, aspect: _rotate(u, 90, aspect),
    "perspective": lambda u, _: _perspective(u),
    "affine": _affine,
    "crop": lambda u, _: _crop(u),
}


# Changes of the pixels where they are: images (n, C, H, W), draws u (n, 9), the mean colour.


def _cutout(x: Tensor, u: Tensor, fill: Tensor, length: int) -> Tensor:
    height, width = x.shape[-2:]
    row, column = (u[:, 0] * height).floor(), (u[:, 1] * width).floor()
    rows, columns = torch.arange(height, device=x.device), torch.arange(width, device=x.device)

    def inside(places: Tensor, centre: Tensor) -> Tensor:  # (n, side)
        start = centre.unsqueeze(1) - length // 2
        return (places >= start) & (places < start + length // 2 * 2)

    hole = inside(rows, row).unsqueeze(2) & inside(columns, column).unsqueeze(1)  # (n, H, W)
    return torch.where(hole.unsqueeze(1), fill, x)


def _brightness(x: Tensor, u: Tensor, fill: Tensor) -> Tensor:
    return (x * (0.9 + 0.2 * u[:, 0]).view(-1, 1, 1, 1)).clamp(0, 1)


def _invert(x: Tensor, u: Tensor, fill: Tensor) -> Tensor:
    return torch.where((u[:, 0] < 0.5).view(-1, 1, 1, 1), 1 - x, x)


_PAINTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "cutout-10": lambda x, u, fill: _cutout(x, u, fill, 10),
    "cutout-20": lambda x, u, fill: _cutout(x, u, fill, 20),
    "brightness": _brightness,
    "invert": _invert,
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


def _uniform(shape: tuple[int, int], draws: str, generator: torch.Generator) -> Tensor:
    """Draws (groups, n, 9): one for each sample, or one for the whole batch."""
    groups, n = shape
    drawn = 1 if draws == "batch" else n
    return torch.rand(groups, drawn, _DRAWS, generator=generator).expand(groups, n, _DRAWS)


_TURNED = {"rotate-10", "rotate-45", "rotate-90", "affine"}  # those that `nearest` is for


def _sample(x: Tensor, matrices: Tensor, mode: str = "bilinear") -> Tensor:
    """Images (m, C, H, W) seen through homographies (m, 3, 3); black outside of the original."""
    height, width = x.shape[-2:]
    ys = (torch.arange(height, device=x.device) * 2 + 1) / height - 1
    xs = (torch.arange(width, device=x.device) * 2 + 1) / width - 1
    grid_y, grid_x = torch.meshgrid(ys, xs, indexing="ij")
    places = torch.stack([grid_x, grid_y, torch.ones_like(grid_x)], -1).view(-1, 3)  # (H·W, 3)
    moved = places @ matrices.to(x.device).transpose(1, 2)  # (m, H·W, 3)
    grid = (moved[..., :2] / moved[..., 2:]).view(-1, height, width, 2)
    return F.grid_sample(x, grid, mode=mode, padding_mode="zeros", align_corners=False)


def image_views(
    names: Sequence[str] = IMAGE_PERTURBATIONS,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    draws: Literal["sample", "batch"] = "sample",
    pixels: Literal["raw", "normalised"] = "raw",
    interpolation: Literal["bilinear", "nearest"] = "bilinear",
) -> Perturbation:
    """The perturbation that gives one view for each name.

    `mean` and `std` are those the images were normalised with; with `raw` pixels they are undone
    before and done again after.

    >>> views = image_views(["hflip", "invert"], mean=[0.5], std=[0.5])
    >>> views(torch.zeros(3, 1, 8, 8), torch.Generator()).shape
    torch.Size([2, 3, 1, 8, 8])
    """
    names = tuple(names)
    turned = [name for name in names if name in _TURNED and interpolation == "nearest"]
    smooth = [name for name in names if name in _WARPS and name not in turned]

    def perturb(x: Tensor, generator: torch.Generator) -> Tensor:
        n, (height, width) = len(x), x.shape[-2:]
        mean_, std_ = (torch.tensor(v, device=x.device).view(-1, 1, 1) for v in (mean, std))
        if pixels == "raw":
            x = x * std_ + mean_
        u = dict(zip(names, _uniform((len(names), n), draws, generator), strict=True))
        views: dict[str, Tensor] = {}
        for warped, mode in ((turned, "nearest"), (smooth, "bilinear")):
            if warped:
                matrices = torch.cat([_WARPS[name](u[name], width / height) for name in warped])
                copies = _sample(x.repeat(len(warped), 1, 1, 1), matrices, mode)
                views |= zip(warped, copies.view(len(warped), *x.shape), strict=True)
        for name in names:
            if name in _PAINTS:
                views[name] = _PAINTS[name](x, u[name].to(x.device), mean_)
        stacked = torch.stack([views[name] for name in names])
        return (stacked - mean_) / std_ if pixels == "raw" else stacked

    return perturb


def noisy_copies(std: float = 0.1, copies: int = 5) -> Perturbation:
    """The perturbation of vectors: copies with Gaussian noise.

    >>> noisy_copies(0.1, 5)(torch.zeros(3, 4), torch.Generator()).shape
    torch.Size([5, 3, 4])
    """

    def perturb(x: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(copies, *x.shape, generator=generator).to(x.device)
        return x + std * noise

    return perturb


def flip_and_rotate(
    x: Tensor,
    generator: torch.Generator,
    *,
    draws: Literal["sample", "batch"] = "sample",
    interpolation: Literal["bilinear", "nearest"] = "bilinear",
) -> Tensor:
    """The training augmentation of images: a horizontal flip half of the time, then ±20°."""
    height, width = x.shape[-2:]
    flip, rotate = _uniform((2, len(x)), draws, generator)
    matrices = _flip(flip, -1, 1) @ _rotate(rotate, 20, width / height)
    return _sample(x, matrices, interpolation)
