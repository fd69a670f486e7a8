"""MFCL: the generator of images that the server trains and the clients use."""

from __future__ import annotations

from ofcl.methods.parts import GenerativeParts
from ofcl.models.generators import ImageGenerator
from ofcl.seeds import private


def build_image_generator(parts: GenerativeParts) -> ImageGenerator:
    """Builds the image generator, with the same weights at the server and at every client.

    Args:
        parts: The parts that generative methods are built from.
    """
    channels = 2 * max(round(64 * parts.width / 20), 1)
    with private(parts.seed, "image generator"):
        generator = ImageGenerator(parts.shape, channels)
    return generator.to(next(parts.model.parameters()).device)


def refuses(shape: tuple[int, ...]) -> str | None:
    """Returns None if the generator can make images of this shape, else which images it can make.

    >>> [refuses((3, side, side)) for side in (28, 32, 64)]
    [None, None, None]
    >>> refuses((3, 30, 30))
    'square images with a side of 28, 32 or 64 (a multiple of 4, from 32 to 64 of 8)'

    Args:
        shape: The shape of an image (C, H, W).
    """
    _, height, width = shape
    good = height == width <= 64 and width % (4 if width <= 32 else 8) == 0
    wanted = "square images with a side of 28, 32 or 64 (a multiple of 4, from 32 to 64 of 8)"
    return None if good else wanted
