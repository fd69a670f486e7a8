"""Images in a grid, one row per class, for people to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from PIL import Image

SIDE, GAP, TEXT = 64, 4, 150  # pixels: side of an image, gap between two, width of the names


def grid(pictures: dict[str, Tensor]) -> Image.Image:
    """Draws rows of images into one picture, each row with its name on the left.

    Args:
        pictures: The images of each row by its name, (n, channels, height, width), from 0 to 1.

    >>> import torch
    >>> grid({"cat": torch.zeros(3, 1, 8, 8), "dog": torch.ones(1, 3, 8, 8)}).size
    (358, 140)
    """
    from PIL import Image, ImageDraw

    columns = max(len(images) for images in pictures.values())
    size = (TEXT + GAP + columns * (SIDE + GAP), GAP + len(pictures) * (SIDE + GAP))
    canvas = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(canvas)
    for row, (name, images) in enumerate(pictures.items()):
        top = GAP + row * (SIDE + GAP)
        draw.text((GAP, top + SIDE // 2 - 5), name[:22], fill="black")
        for column, image in enumerate(images):
            channels = image[:3] if len(image) >= 3 else image[:1]
            pixels = (channels * 255).round().byte().numpy().transpose(1, 2, 0)
            colour = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
            shown = Image.fromarray(np.ascontiguousarray(colour)).resize((SIDE, SIDE), 0)
            canvas.paste(shown, (TEXT + GAP + column * (SIDE + GAP), top))
    return canvas
