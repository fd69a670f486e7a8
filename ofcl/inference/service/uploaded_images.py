"""Image files that anybody may have sent: few formats, and the size is looked at first."""

from __future__ import annotations

import io

import numpy as np

from ofcl.bundle.given_samples import UnusableSample, decode
from ofcl.data.sample_forms import ImageForm
from ofcl.errors import OfclError
from ofcl.inference.service.replies import Refused

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""Pillow's names of the formats that are read; others may start programs, as EPS does."""


def decode_image(
    name: str, data: bytes, form: ImageForm, resize: bool, most_pixels: int
) -> np.ndarray:
    """Decodes an image file.

    Args:
        name: Its name, for messages.
        data: Its bytes.
        form: The form of the model's samples.
        resize: Whether it is resized even if the model has not learned from resized images.
        most_pixels: The pixels that it may have; it is not decoded if it has more.

    Returns:
        Pixels (channels, height, width) uint8.

    Raises:
        Refused: It has too many pixels.
        OfclError: It cannot be read, or does not fit the model.
    """
    from PIL import Image

    name = f"'{name[:80]}'"
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
            if width * height > most_pixels:
                raise Refused(413, f"{name} has {width} × {height} pixels; at most {most_pixels}")
            image.load()
            return np.asarray(decode([image], form, resize)[0])
    except Image.DecompressionBombError:
        raise Refused(413, f"{name} has too many pixels; at most {most_pixels}") from None
    except UnusableSample as error:
        raise OfclError(f"{name}: {error.problem}") from None
    except Refused:
        raise
    except Exception:  # the decoders': OSError, SyntaxError, struct.error …
        raise OfclError(f"{name} cannot be read as an image; expected one of "
                        f"{', '.join(FORMATS)}") from None  # fmt: skip
