"""Image files: any size, colour or grey, as uint8 (channels, height, width)."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from ofcl.data.options import Damage, Progress
from ofcl.errors import OfclError

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}

GREY = {"1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "I;16N", "F"}
"""Pillow's modes that have no colour."""

MOST_BYTES = 16 * 2**30  # of all images together; more is surely a mistake

Made = tuple[np.ndarray, np.ndarray]
"""Images (n, channels, height, width), and which of the files they are of."""


@dataclass(frozen=True)
class Stored:
    """An image file that lies inside another file."""

    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name


ImageFile = Path | Stored


class Unreadable(ValueError):
    """An image file that cannot be read, with the reason."""


def is_image(path: Path) -> bool:
    """Whether a file's name says that it is an image; hidden files are not meant."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def read_image(
    path: ImageFile, side: int | None = None, grey: bool | None = None, top: float | None = None
) -> np.ndarray:
    """One image (channels, height, width) uint8, resized if a side is given.

    `grey` None: one channel if the file has no colour, else three. `top` is the largest value of
    all images with more than 8 bits, by which they are brought to 8; None: this one's own. If it is
    `UNKNOWN`, they have 16 bits, or numbers up to 1.
    """
    from PIL import ImageOps

    with _opened(path) as image:
        if grey is None:
            grey = image.mode in GREY
        upright = ImageOps.exif_transpose(image)
        plain = _eight_bits(upright, top).convert("L" if grey else "RGB")
        if side is not None and plain.size != (side, side):
            plain = plain.resize((side, side))
        pixels = np.asarray(plain)
    return pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def read_images(
    paths: Sequence[ImageFile], side: int | None, damage: Damage, track: Progress
) -> Callable[[Sequence[ImageFile]], Made]:
    """The function that reads images of one size and colour; what these are, all files decide."""
    grey, top, bad = True, 0.0, set()
    sizes: dict[tuple[int, int], ImageFile] = {} if side is None else {(side, side): Path()}
    for path in track(paths, "looking at images"):
        try:
            with _opened(path) as image:
                if side is None:
                    sizes.setdefault(_upright_size(image), path)
                if _is_deep(image):
                    top = max(top, float(_deep_pixels(image).max()))
                grey = grey and image.mode in GREY
        except Unreadable as error:
            bad.add(path)
            damage.report(str(error))
    if len(sizes) > 1:
        small, large = min(sizes), max(sizes)
        raise OfclError(
            f"images of {len(sizes)} different sizes: '{sizes[small]}' is {small[0]} × {small[1]}, "
            f"'{sizes[large]}' {large[0]} × {large[1]}; choose one side in pixels with "
            "--image-size, for example 32"
        )
    width, height = next(iter(sizes), (0, 0))
    shape = (1 if grey else 3, height, width)
    if len(paths) * int(np.prod(shape)) > MOST_BYTES:
        raise OfclError(
            f"{len(paths)} images of {width} × {height} do not fit into memory; "
            "make them smaller with --image-size, for example 64"
        )

    def read(files: Sequence[ImageFile]) -> Made:
        images = np.empty((len(files), *shape), dtype=np.uint8)
        kept: list[int] = []
        for row, path in enumerate(track(files, "reading images")):
            if path in bad:
                continue
            try:
                images[len(kept)] = read_image(path, side, grey, top)
                kept.append(row)
            except Unreadable as error:
                damage.report(str(error))
        return images[: len(kept)], np.array(kept, dtype=np.int64)

    return read


def image_sizes(paths: Sequence[ImageFile]) -> set[tuple[int, int]]:
    """The widths and heights of those images that can be read."""
    sizes = set()
    for path in paths:
        with suppress(Unreadable), _opened(path) as image:
            sizes.add(_upright_size(image))
    return sizes


@contextmanager
def _opened(path: ImageFile) -> Iterator[Image.Image]:
    """An image file, with whatever Pillow says against it as one error."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about EXIF data, transparency: they are read anyway
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            # Not by path: Pillow would map the file, which garbles a TIFF that is to be turned.
            with _bytes(path) as file, Image.open(file) as image:
                yield image
    except UnidentifiedImageError:
        raise Unreadable(f"'{path}' cannot be read as an image (it is not one)") from None
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise Unreadable(f"image '{path}' cannot be opened: {error.strerror}") from None
    except Exception as error:  # the decoders': OSError, SyntaxError, struct.error …
        raise Unreadable(f"'{path}' cannot be read as an image ({error})") from None


def _bytes(path: ImageFile) -> IO[bytes]:
    return io.BytesIO(path.data) if isinstance(path, Stored) else path.open("rb")


def _upright_size(image: Image.Image) -> tuple[int, int]:
    """Width and height as they are once the picture is turned as its EXIF data say."""
    from PIL import ImageOps

    if image.getexif().get(0x0112) not in (5, 6, 7, 8):  # a quarter, which swaps the sides
        return image.size
    return ImageOps.exif_transpose(image).size  # TIFFs are already


def _is_deep(image: Image.Image) -> bool:
    """Whether a grey image has more than 8 bits, of which Pillow would cut what is above 255."""
    return image.mode.startswith("I") or image.mode == "F"


def _deep_pixels(image: Image.Image) -> np.ndarray:
    pixels = np.asarray(image)
    low, high = pixels.min(), pixels.max()
    if not 0 <= low <= high <= 65535:
        raise Unreadable(f"pixels from {low} to {high}; expected 8 or 16 bits, or 0 to 1")
    return pixels


UNKNOWN = math.inf  # the largest value of images that have not all been seen
WHITE = (2**8 - 1, 2**12 - 1, 2**16 - 1)  # of the depths that files of 16 bits usually hold


def _eight_bits(image: Image.Image, top: float | None) -> Image.Image:
    """Images of 8 bits as they are; others from 12 or 16, whichever hold `top`, or from 0 … 1."""
    from PIL import Image

    if not _is_deep(image):
        return image
    pixels = _deep_pixels(image)
    top = float(pixels.max()) if top is None else top
    if top == UNKNOWN:
        top = 1.0 if image.mode == "F" and pixels.max() <= 1 else WHITE[-1]
    white = 1 if image.mode == "F" and top <= 1 else next(most for most in WHITE if top <= most)
    return Image.fromarray((pixels * (255 / white)).astype(np.uint8))
