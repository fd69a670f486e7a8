"""Arrays of npz files; images in them may have any of the usual layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ofcl.errors import OfclError


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Reads the arrays of an npz file by name.

    Args:
        path: The file.

    Raises:
        OfclError: The file is damaged, is not an npz, or has pickled objects, whose reading could
            run code.
    """
    try:
        with path.open("rb") as file:
            data = np.load(file, allow_pickle=False)
            arrays = {key: data[key] for key in data} if isinstance(data, Mapping) else None
    except Exception as error:  # of zipfile, zlib, tokenize, NumPy: whatever damage brings
        reason = str(error).split("\n")[0]
        raise OfclError(f"'{path}' cannot be read as npz ({reason})") from None
    if arrays is None:
        raise OfclError(f"'{path.name}' holds a single array; expected an npz of several")
    # NumPy returns other files in the archive as bytes.
    return {key: array for key, array in arrays.items() if isinstance(array, np.ndarray)}


def pixel_unit(parts: Sequence[np.ndarray]) -> int:
    """Returns the factor that brings pixels to 0 … 255: 255 if all images are from 0 to 1, else 1.

    Args:
        parts: The images of each part of a dataset.
    """
    unit_range = all(x.dtype.kind in "bf" and (not x.size or x.max() <= 1) for x in parts)
    return 255 if unit_range else 1


def image_arrays(x: np.ndarray, where: str, unit: int | None = None) -> np.ndarray:
    """Brings images in any of the usual layouts to uint8 (n, channels, height, width).

    Args:
        x: The images.
        where: Their file and name, for messages.
        unit: The factor that `pixel_unit` returned; None: it is found from these images alone.

    Raises:
        OfclError: The shape or the values are not those of images.
    """
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        raise OfclError(
            f"{where}: shape {x.shape}; images are (n, height, width), (n, height, width, 3) or "
            "(n, 3, height, width)"
        )
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x)
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    if low < 0 or high > 255:
        raise OfclError(
            f"{where}: values from {low:g} to {high:g}; images have 0 to 255, or 0 to 1"
        )
    unit = pixel_unit([x]) if unit is None else unit
    return np.ascontiguousarray(np.round(x * unit).astype(np.uint8))
