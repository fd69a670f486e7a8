"""The operations that perturb images: pixels are moved, covered or recoloured.

An operation on images has two parts. On the CPU, NumPy turns uniform random numbers u (n, 9), in
place, into the numbers that the operation needs. On the device, a function of few kernels applies
these to the images. For operations that move pixels, the first part is in `homographies`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

NUMBERS = 9  # uniform random numbers for each image and operation


def warp(x: Tensor, matrices: Tensor, mode: str = "bilinear") -> Tensor:
    """Moves the pixels of images by homographies; pixels from outside of the image are black.

    Args:
        x: The images (n, C, H, W).
        matrices: The homography (n, 3, 3) of each image: from a place in the result to the place in
            the image, in coordinates from -1 to 1.
        mode: The interpolation of `grid_sample`.
    """
    height, width = x.shape[-2:]
    moved = _homogeneous_places(height, width, x.device) @ matrices.transpose(1, 2)  # (n, H·W, 3)
    grid = (moved[..., :2] / moved[..., 2:]).view(-1, height, width, 2)
    return F.grid_sample(x, grid, mode=mode, padding_mode="zeros", align_corners=False)


CUTOUTS = {"cutout-10": 10, "cutout-20": 20}
"""The perturbations that cover a square, and its side in pixels."""


def place_holes(u: np.ndarray, side: int, height: int, width: int) -> None:
    """Replaces u[:, :3] by the row and column of a hole's centre, and half of the hole's side.

    The centre is half a pixel up and left of the drawn pixel, so that a hole of an even side has as
    many pixels on either side of its centre.

    Args:
        u: Uniform random numbers (n, 9), nine for each image, which are changed.
        side: The side of the square holes, in pixels.
        height: The height of the images, in pixels.
        width: The width of the images, in pixels.
    """
    sides = np.array([height, width], dtype=np.float32)
    u[:, :2] = np.floor(u[:, :2] * sides) - 0.5
    u[:, 2] = side // 2


def cut_out(x: Tensor, holes: Tensor, fill: Tensor) -> Tensor:
    """Fills holes in images with one colour.

    Args:
        x: The images (n, C, H, W).
        holes: The k holes of each image, (k, n, 9), as `place_holes` makes them.
        fill: The colour of the holes (C, 1, 1).

    Returns:
        k copies of every image, each copy with one hole, (k, n, C, H, W).
    """
    height, width = x.shape[-2:]
    distances = (_rows_and_columns(height, width, x.device) - holes[..., None, :2]).abs()
    hole = (distances < holes[..., None, 2:3]).all(-1)  # (k, n, H·W)
    return torch.where(hole.view(*holes.shape[:2], 1, height, width), fill, x)


@dataclass(frozen=True)
class Recolouring:
    """An operation that changes the values of pixels.

    Args:
        prepare: Turns uniform random numbers u (n, 9), in place, into the numbers that `apply`
            needs.
        apply: Changes images (n, C, H, W) by these numbers, on the device.
    """

    prepare: Callable[[np.ndarray], None]
    apply: Callable[[Tensor, Tensor], Tensor]


def _draw_brightness(u: np.ndarray) -> None:
    """Turns u[:, 0] into a factor from 0.9 to 1.1."""
    u[:, 0] = 0.9 + 0.2 * u[:, 0]  # a factor


def _apply_brightness(x: Tensor, draws: Tensor) -> Tensor:
    return (x * draws[:, 0].view(-1, 1, 1, 1)).clamp(0, 1)


def _draw_inversion(u: np.ndarray) -> None:
    """Turns u[:, :2] into an offset and a factor: with probability ½, 1 and -1; else 0 and 1."""
    happens = u[:, 0] < 0.5
    u[:, 0], u[:, 1] = happens, np.where(happens, -1, 1)


def _apply_inversion(x: Tensor, draws: Tensor) -> Tensor:
    offset, factor = (draws[:, place].view(-1, 1, 1, 1) for place in (0, 1))
    return torch.addcmul(offset, factor, x)


RECOLOURINGS = {
    "brightness": Recolouring(_draw_brightness, _apply_brightness),
    "invert": Recolouring(_draw_inversion, _apply_inversion),
}
"""Every recolouring by name."""


# Both copy without `non_blocking`: every client's CUDA stream needs the cached result whole.


@functools.cache
def _homogeneous_places(height: int, width: int, device: torch.device) -> Tensor:
    """Returns the places of all pixels (H·W, 3), in homogeneous coordinates from -1 to 1."""
    ys, xs = ((torch.arange(side) * 2 + 1) / side - 1 for side in (height, width))
    grid_y, grid_x = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack([grid_x, grid_y, torch.ones_like(grid_x)], -1).view(-1, 3).to(device)


@functools.cache
def _rows_and_columns(height: int, width: int, device: torch.device) -> Tensor:
    """Returns the row and the column of every pixel, (H·W, 2)."""
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width))
    return places.float().to(device)
