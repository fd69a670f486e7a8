"""Image files of any size, in colour or grey, read as uint8 (channels, height, width)."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from ofcl.data.files.pixel_depth import deep_pixels, is_deep, to_eight_bits
from ofcl.data.options import Damage, Progress
from ofcl.errors import OfclError

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}

GREY = {"1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "I;16N", "F"}
"""Pillow's modes that have no colour."""

MOST_BYTES = 16 * 2**30  # of all images together; more is surely a mistake

DecodedImages = tuple[np.ndarray, np.ndarray]
"""Images (n, channels, height, width) uint8, and the indices of the files that could be read."""


@dataclass(frozen=True)
class StoredImage:
    """An image file that is stored inside another file.

    Args:
        name: Its name in messages.
        data: The bytes of the image file.
    """

    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name


ImageFile = Path | StoredImage


class UnreadableImage(ValueError):
    """An image file that cannot be read, with the reason."""


def is_image(path: Path) -> bool:
    """Says whether a file is an image by the ending of its name, and is not hidden.

    Args:
        path: The file, which need not exist.
    """
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def read_image(
    path: ImageFile, side: int | None = None, grey: bool | None = None, largest: float | None = None
) -> np.ndarray:
    """Reads one image as uint8 (channels, height, width), turned upright.

    Args:
        path: The image file.
        side: The side in pixels to which it is resized; None: it keeps its size.
        grey: True for one channel, False for three; None: one if the file has no colour.
        largest: The largest value in all images with more than 8 bits, which sets their scale (see
            `to_eight_bits`).

    Raises:
        UnreadableImage: The file cannot be read.
    """
    with _opened(path) as image:
        return image_pixels(image, side, grey, largest)


def image_pixels(
    image: Image.Image,
    side: int | None = None,
    grey: bool | None = None,
    largest: float | None = None,
) -> np.ndarray:
    """Returns the pixels of an opened image as uint8 (channels, height, width), turned upright.

    Args:
        image: The image.
        side: The side in pixels to which it is resized; None: it keeps its size.
        grey: True for one channel, False for three; None: one if the image has no colour.
        largest: The largest value in all images with more than 8 bits, as for `read_image`.
    """
    from PIL import ImageOps

    if grey is None:
        grey = image.mode in GREY
    upright = ImageOps.exif_transpose(image)
    plain = to_eight_bits(upright, largest).convert("L" if grey else "RGB")
    if side is not None and plain.size != (side, side):
        plain = plain.resize((side, side))
    pixels = np.asarray(plain)
    return pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


@dataclass(frozen=True)
class ImageReader:
    """Reads image files with one size, one number of channels and one scale of pixels.

    Args:
        shape: Channels, height and width of all images.
        resized: Whether files of another size are resized, which makes them square.
        largest: The largest value in all images with more than 8 bits; 0: there are none.
        unreadable: Files that were found to be damaged and are left out.
        damage: Other files that cannot be read are reported to it.
        track: Shows how many images are read.
    """

    shape: tuple[int, int, int]
    resized: bool
    largest: float
    unreadable: frozenset[ImageFile]
    damage: Damage
    track: Progress

    def __call__(self, files: Sequence[ImageFile]) -> DecodedImages:
        """Reads image files.

        Args:
            files: The files.

        Returns:
            Their pixels, and the indices of the files that could be read.
        """
        grey, side = self.shape[0] == 1, self.shape[1] if self.resized else None
        images = np.empty((len(files), *self.shape), dtype=np.uint8)
        kept: list[int] = []
        for row, path in enumerate(self.track(files, "reading images")):
            if path in self.unreadable:
                continue
            try:
                images[len(kept)] = read_image(path, side, grey, self.largest)
                kept.append(row)
            except UnreadableImage as error:
                self.damage.report(str(error))
        return images[: len(kept)], np.array(kept, dtype=np.int64)


def read_images(
    paths: Sequence[ImageFile],
    side: int | None,
    damage: Damage,
    track: Progress,
    white: float = 0.0,
) -> ImageReader:
    """Looks at all images of a dataset, and returns a reader of them.

    All images that it reads have one size, one number of channels and one scale of pixels.

    Args:
        paths: The image files of all parts of the dataset.
        side: The side in pixels to which they are resized; None: they must all have the same size.
        damage: Files that cannot be read are reported to it.
        track: Shows how many images are done.
        white: The largest value in images with more than 8 bits that came before these.

    Raises:
        OfclError: The images have different sizes, or do not fit into memory.
    """
    grey, largest, unreadable = True, white, set()
    sizes: dict[tuple[int, int], ImageFile] = {} if side is None else {(side, side): Path()}
    for path in track(paths, "looking at images"):
        try:
            with _opened(path) as image:
                if side is None:
                    sizes.setdefault(_upright_size(image), path)
                if is_deep(image):
                    largest = max(largest, float(deep_pixels(image).max()))
                grey = grey and image.mode in GREY
        except UnreadableImage as error:
            unreadable.add(path)
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

    return ImageReader(shape, side is not None, largest, frozenset(unreadable), damage, track)


def image_sizes(paths: Sequence[ImageFile]) -> set[tuple[int, int]]:
    """Returns the different sizes (width, height) of the images that can be read.

    Args:
        paths: The image files.
    """
    sizes = set()
    for path in paths:
        with suppress(UnreadableImage), _opened(path) as image:
            sizes.add(_upright_size(image))
    return sizes


@contextmanager
def _opened(path: ImageFile) -> Iterator[Image.Image]:
    """Opens an image file for a `with` block; any error in it becomes an `UnreadableImage`."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about EXIF data, transparency: they are read anyway
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            # Not by path: Pillow would map the file, which garbles a TIFF that is to be turned.
            with _open_bytes(path) as file, Image.open(file) as image:
                yield image
    except UnidentifiedImageError:
        raise UnreadableImage(f"'{path}' cannot be read as an image (it is not one)") from None
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise UnreadableImage(f"image '{path}' cannot be opened: {error.strerror}") from None
    except Exception as error:  # the decoders': OSError, SyntaxError, struct.error …
        raise UnreadableImage(f"'{path}' cannot be read as an image ({error})") from None


def _open_bytes(path: ImageFile) -> IO[bytes]:
    """Opens an image file, or one that is stored inside another file, for reading bytes."""
    return io.BytesIO(path.data) if isinstance(path, StoredImage) else path.open("rb")


def _upright_size(image: Image.Image) -> tuple[int, int]:
    """Returns the width and height of an image after turning it as its EXIF data say."""
    from PIL import ImageOps

    if image.getexif().get(0x0112) not in (5, 6, 7, 8):  # a quarter turn, which swaps the sides
        return image.size
    return ImageOps.exif_transpose(image).size  # Pillow has already turned TIFFs
