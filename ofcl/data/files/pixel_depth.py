"""Grey images with more than 8 bits per pixel, brought to 8.

Files with 16 bits per pixel often use only 12 of them, and files of floats go from 0 to 1. So the
scale depends on the largest value in all images of a dataset.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

UNKNOWN = math.inf  # the largest value, while some images have not been seen
WHITE = (2**8 - 1, 2**12 - 1, 2**16 - 1)  # largest values of 8, 12 and 16 bits


def is_deep(image: Image.Image) -> bool:
    """Says whether a grey image has more than 8 bits per pixel.

    Pillow's own conversion of such an image would cut off values above 255.

    Args:
        image: The image.
    """
    return image.mode.startswith("I") or image.mode == "F"


def deep_pixels(image: Image.Image) -> np.ndarray:
    """Returns the pixels (height, width) of a grey image with more than 8 bits, unchanged.

    Args:
        image: The image.

    Raises:
        ValueError: A value is below 0 or does not fit into 16 bits.
    """
    pixels = np.asarray(image)
    low, high = pixels.min(), pixels.max()
    if not 0 <= low <= high <= 65535:
        raise ValueError(f"pixels from {low} to {high}; expected 8 or 16 bits, or 0 to 1")
    return pixels


def to_eight_bits(image: Image.Image, largest: float | None) -> Image.Image:
    """Brings an image to 8 bits per pixel; an image that has 8 is returned as it is.

    Args:
        image: The image.
        largest: The largest value in all images of the dataset with more than 8 bits. None: the
            largest in this image. `UNKNOWN`: 16 bits are assumed, or 0 to 1 for floats in that
            range.
    """
    from PIL import Image

    if not is_deep(image):
        return image
    pixels = deep_pixels(image)
    if largest is None:
        largest = float(pixels.max())
    if largest == UNKNOWN:
        largest = 1.0 if image.mode == "F" and pixels.max() <= 1 else WHITE[-1]
    if image.mode == "F" and largest <= 1:
        white = 1
    else:
        white = next(value for value in WHITE if largest <= value)
    return Image.fromarray((pixels * (255 / white)).astype(np.uint8))
