"""Image files: any size, colour or grey, as uint8 (channels, height, width)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ofcl.data.reading import Damage, Track
from ofcl.errors import OfclError

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}

GREY = {"1", "L", "LA", "I", "I;16", "I;16B", "I;16L"}
"""Pillow's modes that have no colour."""

MOST_BYTES = 16 * 2**30  # of all images together; more is surely a mistake

Made = tuple[np.ndarray, np.ndarray]
"""Images (n, channels, height, width), and which of the files they are of."""


class Unreadable(ValueError):
    """An image file that cannot be read, with the reason."""


def is_image(path: Path) -> bool:
    """Whether a file's name says that it is an image; hidden files are not meant."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def read_image(path: Path, side: int | None = None, grey: bool | None = None) -> np.ndarray:
    """One image (channels, height, width) uint8, resized if a side is given.

    `grey` None: one channel if the file has no colour, else three.
    """
    from PIL import ImageOps

    with _opened(path) as image:
        if grey is None:
            grey = image.mode in GREY
        upright = ImageOps.exif_transpose(image)
        plain = _eight_bits(upright).convert("L" if grey else "RGB")
        if side is not None and plain.size != (side, side):
            plain = plain.resize((side, side))
        pixels = np.asarray(plain)
    return pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def read_images(
    paths: Sequence[Path], side: int | None, damage: Damage, track: Track
) -> Callable[[Sequence[Path]], Made]:
    """The function that reads images of one size and colour; what these are, all files decide."""
    grey, sizes, bad = True, set(), set()
    for path in track(paths, "looking at images"):
        try:
            with _opened(path) as image:
                grey = grey and image.mode in GREY
                # A picture that is to be turned by a quarter has its sides swapped.
                turned = image.getexif().get(0x0112, 1) >= 5
                sizes.add(image.size[::-1] if turned else image.size)
        except Unreadable as error:
            bad.add(path)
            damage.report(str(error))
    if side is None and len(sizes) > 1:
        small, large = min(sizes), max(sizes)
        raise OfclError(
            f"images of {len(sizes)} different sizes, {small[0]} × {small[1]} to {large[0]} × "
            f"{large[1]}; choose one side in pixels with --image-size, for example 32"
        )
    width, height = (side, side) if side else next(iter(sizes), (0, 0))
    shape = (1 if grey else 3, height, width)
    if len(paths) * int(np.prod(shape)) > MOST_BYTES:
        raise OfclError(
            f"{len(paths)} images of {width} × {height} do not fit into memory; "
            "make them smaller with --image-size, for example 64"
        )

    def read(files: Sequence[Path]) -> Made:
        images = np.empty((len(files), *shape), dtype=np.uint8)
        kept: list[int] = []
        for row, path in enumerate(track(files, "reading images")):
            if path in bad:
                continue
            try:
                images[len(kept)] = read_image(path, side, grey)
                kept.append(row)
            except Unreadable as error:
                damage.report(str(error))
        return images[: len(kept)], np.array(kept, dtype=np.int64)

    return read


class _opened:
    """An image file, with whatever Pillow says against it as one error."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Image.Image:
        from PIL import Image

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                self._image = Image.open(self._path)
        except Exception as error:
            raise self._unreadable(error) from None
        return self._image

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self._image.close()
        # Pillow's decoders raise whatever their format brings: OSError, SyntaxError, struct.error …
        if isinstance(error, Exception) and not isinstance(error, Unreadable | OfclError):
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> Unreadable:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            return Unreadable(f"image '{self._path}' cannot be opened: {error.strerror}")
        return Unreadable(f"'{self._path}' cannot be read as an image ({error})")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Grey images of 16 bits hold up to 65535, which Pillow would cut at 255."""
    from PIL import Image

    if not image.mode.startswith("I"):
        return image
    pixels = np.asarray(image)
    if pixels.min() < 0 or pixels.max() > 65535:
        raise Unreadable(f"pixels from {pixels.min()} to {pixels.max()}: not an image of 16 bits")
    return Image.fromarray((pixels >> 8 if pixels.max() > 255 else pixels).astype(np.uint8))
