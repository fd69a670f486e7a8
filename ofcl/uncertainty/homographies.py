"""Homographies: the matrices of perturbations that move pixels, from uniform random numbers.

Each function takes numbers u (n, 9) and returns matrices (n, 3, 3). A matrix leads from a place in
the perturbed image to the place in the original where its pixel comes from. Both are in coordinates
from -1 to 1.

They are computed with NumPy: hundreds of operations on a handful of numbers, which PyTorch starts
slowly. For the numbers of sixteen mini-batches, they take little longer than for one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch


def _matrices(n: int, elements: Sequence[np.ndarray | float]) -> np.ndarray:
    """Makes n matrices from their nine elements, row by row; returns an array (n, 3, 3).

    Args:
        n: The number of matrices.
        elements: The nine elements; each is an array (n,), or one number for all matrices.
    """
    matrices = np.empty((n, 9), dtype=np.float32)
    for place, element in enumerate(elements):
        matrices[:, place] = element
    return matrices.reshape(n, 3, 3)


def flip_matrices(u: np.ndarray, x_sign: int, y_sign: int) -> np.ndarray:
    """Makes the matrices of mirrored images: each image is mirrored with probability ½.

    Args:
        u: Uniform random numbers (n, 9), nine for each image.
        x_sign: -1 to exchange left and right, else 1.
        y_sign: -1 to exchange top and bottom, else 1.

    Returns:
        Matrices (n, 3, 3).
    """
    happens = u[:, 0] < 0.5
    x, y = (np.where(happens, sign, 1) for sign in (x_sign, y_sign))
    return _matrices(len(u), [x, 0, 0, 0, y, 0, 0, 0, 1])


@dataclass(frozen=True)
class Turn:
    """The limits of a random turn: images are turned about their centre and scaled, then moved.

    Args:
        degrees: The largest angle, to either side.
        move: The largest move to either side, as a share of the width, and of the height.
        scale: The smallest and the largest scale.
    """

    degrees: float
    move: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (1.0, 1.0)

    @property
    def limits(self) -> tuple[float, ...]:
        """The limits as five numbers, by which `turn_matrices` scales random numbers.

        The largest angle in radians; the largest move to the right and down, in coordinates from -1
        to 1; the smallest scale; the largest scale minus the smallest.
        """
        least, most = self.scale
        return math.radians(self.degrees), 2 * self.move[0], 2 * self.move[1], least, most - least


TURNS = {
    "rotate-10": Turn(10),
    "rotate-45": Turn(45),
    "rotate-90": Turn(90),
    "affine": Turn(20, move=(0.1, 0.3), scale=(0.5, 0.75)),
}
"""The perturbations that turn images, by name."""


def turn_matrices(u: np.ndarray, turns: Sequence[Turn], aspect: float) -> np.ndarray:
    """Makes the matrices of k random turns at once; a loop over them takes four times as long.

    Args:
        u: Uniform random numbers (k, n, 9): nine for each turn and image.
        turns: The limits of the k turns.
        aspect: The images' width divided by their height.

    Returns:
        Matrices (k, n, 3, 3).
    """
    limits = np.array([turn.limits for turn in turns], dtype=np.float32)[:, :, None]
    # A tensor, for PyTorch's cosine and sine: NumPy's may round otherwise.
    angle = torch.from_numpy(limits[:, 0] * (2 * u[..., 0] - 1))
    right, down = (limits[:, place] * (2 * u[..., place] - 1) for place in (1, 2))
    scale = limits[:, 3] + limits[:, 4] * u[..., 3]
    cosine, sine = angle.cos().numpy() / scale, angle.sin().numpy() / scale
    a, b, c = cosine, sine / aspect, -sine * aspect
    x, y = -(a * right + b * down), -(c * right + a * down)
    elements = [element.reshape(-1) for element in (a, b, x, c, a, y)]
    return _matrices(a.size, [*elements, 0, 0, 1]).reshape(*a.shape, 3, 3)


def _crop(u: np.ndarray) -> np.ndarray:
    """Makes the matrices (n, 3, 3) that enlarge a random piece of each image to the whole.

    The piece has 0.8 to 1 of the area, and sides whose ratio is 0.9 to 1.1. It is made from uniform
    random numbers u (n, 9).
    """
    area = 0.8 + 0.2 * u[:, 0]
    logarithm = math.log(0.9) + (math.log(1.1) - math.log(0.9)) * u[:, 1]
    ratio = torch.from_numpy(logarithm).exp().numpy()
    sides = torch.from_numpy(np.stack([area * ratio, area / ratio])).sqrt()
    width, height = sides.clamp(max=1).numpy()
    x, y = (1 - width) * (2 * u[:, 2] - 1), (1 - height) * (2 * u[:, 3] - 1)
    return _matrices(len(u), [width, 0, x, 0, height, y, 0, 0, 1])


_CORNERS = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=np.float32)


def _perspective(u: np.ndarray) -> np.ndarray:
    """Makes the matrices (n, 3, 3) that tilt each image with probability ½.

    Each corner moves inwards by up to a quarter of the side, by uniform random numbers u (n, 9).
    The homography from the unit square to a quadrilateral has a closed form (Heckbert 1989). Its
    adjugate is the inverse, up to a factor that does not matter for homographies.
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


WARPS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "hflip": lambda u: flip_matrices(u, -1, 1),
    "vflip": lambda u: flip_matrices(u, 1, -1),
    "perspective": _perspective,
    "crop": _crop,
}
"""The other perturbations that move pixels, by name: functions of u that make matrices."""
