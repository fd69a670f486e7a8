"""Samples as people have them: arrays, tensors, images, paths, texts, rows, frames.

`collect` finds out whether one sample or several were given, and lists them undecoded. `decode`
turns some of them into an array that the form of the model's samples describes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ofcl.data.files.arrays import image_arrays
from ofcl.data.files.columns import Meaning
from ofcl.data.files.images import (
    StoredImage,
    UnreadableImage,
    image_pixels,
    is_image,
    read_image,
)
from ofcl.data.files.pixel_depth import UNKNOWN
from ofcl.data.files.tables import read_table, table_format
from ofcl.data.options import Damage
from ofcl.data.sample_forms import ImageForm, SampleForm, TableForm, TextForm, VectorForm
from ofcl.errors import OfclError


class UnusableSample(OfclError):
    """A sample that does not fit the model.

    Args:
        place: Its place among the samples that were given, from 0.
        problem: The reason, for the user.
        names_itself: Whether the reason names the sample, as that of an image file does.

    Attributes:
        place: The same.
        problem: The same.
        names_itself: The same.
    """

    def __init__(self, place: int, problem: str, names_itself: bool = False) -> None:
        super().__init__(problem if names_itself else f"sample {place}: {problem}")
        self.place, self.problem, self.names_itself = place, problem, names_itself


class Given(NamedTuple):
    """Samples that somebody has given.

    Args:
        samples: The samples; images in files are not decoded yet.
        single: Whether it was one sample, so that one answer is expected and not a list.
    """

    samples: Sequence[Any]
    single: bool


def collect(given: Any, form: SampleForm) -> Given:
    """Lists the samples that somebody has given.

    Args:
        given: One sample or several, in any of the forms that `docs/use.md` lists.
        form: The form of the model's samples.

    Raises:
        OfclError: If nothing in it can be a sample of this form.
    """
    if isinstance(given, Tensor):
        given = given.detach().cpu().numpy()
    if hasattr(given, "columns") and not isinstance(given, Mapping):  # a frame of pandas or polars
        columns = {str(name): given[name].to_list() for name in given.columns}
        return Given(_rows(columns), single=False)
    if isinstance(given, Path) and isinstance(form, ImageForm) and given.is_dir():
        return Given(images_below(given), single=False)
    if isinstance(given, Path) and table_format(given):
        return Given(_rows(read_table(given, Damage()).columns), single=False)
    if isinstance(given, np.ndarray):
        return _of_array(given, form)
    if isinstance(given, str | Path | Mapping) or hasattr(given, "convert"):
        return Given([given], single=True)
    if isinstance(given, Sequence):
        if not isinstance(form, TextForm) and given and _is_number(given[0]):
            return Given([given], single=True)  # one row or vector of numbers
        if isinstance(form, TableForm) and given and not _is_row(given[0]):
            return Given([given], single=True)  # the cells of one row
        return Given(given, single=False)
    raise OfclError(f"{type(given).__name__} is given; this model takes {form.words()}")


def decode(samples: Sequence[Any], form: SampleForm, resize: bool = False) -> Any:
    """Turns listed samples into what the form describes.

    Args:
        samples: Samples that `collect` has listed.
        form: The form of the model's samples.
        resize: Whether images of another size are resized even if the model has not learned from
            resized ones.

    Returns:
        Images (n, channels, height, width) uint8, rows or vectors (n, d) of 64 bits, or texts.

    Raises:
        UnusableSample: If a sample does not fit; the message says which, and what is wrong.
    """
    if isinstance(samples, np.ndarray):  # `collect` has brought it into shape
        return samples
    match form:
        case ImageForm():
            return np.stack([_image(n, sample, form, resize) for n, sample in enumerate(samples)])
        case TextForm():
            meaning = Meaning("", "text", (form.column or "text",))
            return [_cell(place, sample, meaning, str) for place, sample in enumerate(samples)]
        case TableForm() if form.codes:
            meaning = Meaning("", "mixed", form.columns, form.codes)
            return [_cell(n, _named(n, s, form), meaning, ()) for n, s in enumerate(samples)]
        case TableForm():
            meaning = Meaning("", "numbers", form.columns)
        case VectorForm():
            if form.by_parties and any(isinstance(sample, Mapping) for sample in samples):
                raise OfclError(
                    "rows with names of columns are given, and this model does not know the "
                    "columns: each party standardises its own. Use the model in a party's folder, "
                    f"or give {form.words()}"
                )
            meaning = Meaning("", "list", (form.column or "x",))
    rows = [
        _cell(place, _plain(sample), meaning, (list, tuple)) for place, sample in enumerate(samples)
    ]
    for place, row in enumerate(rows):
        if len(row) != form.shape[0]:
            problem = f"{len(row)} numbers; expected {form.shape[0]}: {form.words()}"
            raise UnusableSample(place, problem)
    if all(isinstance(sample, Mapping) for sample in samples):  # `Meaning` has checked each number
        return np.array(rows, dtype=np.float64)
    return np.stack([_numbers(place, row) for place, row in enumerate(rows)])


def images_below(folder: Path) -> list[Path]:
    """Lists the image files in a folder and all folders below it, without hidden ones, in order.

    Args:
        folder: The folder.

    Raises:
        OfclError: If there are none.
    """
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if is_image(path)
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not files:
        raise OfclError(f"no images in '{folder}' or the folders below it")
    return files


def _of_array(array: np.ndarray, form: SampleForm) -> Given:
    """Brings an array of one or several samples to the shape of the form's samples."""
    dimensions = len(form.shape)
    if isinstance(form, TextForm):
        if array.dtype.kind in "UO":
            return Given([str(text) for text in array.reshape(-1)], single=array.ndim == 0)
        raise OfclError(f"an array of {array.dtype} is given; this model takes {form.words()}")
    if array.dtype.kind not in "buif":
        raise OfclError(f"an array of {array.dtype} is given; this model takes {form.words()}")
    if isinstance(form, TableForm) and form.codes:
        single = array.ndim == 1
        return Given((array[None] if single else array).tolist(), single)
    if isinstance(form, ImageForm):
        single = array.ndim == 2 or (array.ndim == 3 and _is_one_image(array, form))
        images = image_arrays(array[None] if single else array, "the array")
        array = images
    else:
        single = array.ndim == 1
        array = _finite((array[None] if single else array).astype(np.float64))
    if array.ndim != dimensions + 1 or array.shape[1:] != form.shape:
        found = " × ".join(map(str, array.shape[1:]))
        raise OfclError(f"samples of shape {found} are given; this model takes {form.words()}")
    return Given(array, single)  # type: ignore[arg-type]


def _is_one_image(array: np.ndarray, form: ImageForm) -> bool:
    """Says whether an array of three dimensions is one image, rather than several grey ones."""
    channels, height, width = form.shape
    return array.shape in ((channels, height, width), (height, width, channels))


def _image(place: int, sample: Any, form: ImageForm, resize: bool) -> np.ndarray:
    """Reads one image, a path, Pillow image or array, as uint8 (channels, height, width)."""
    channels, height, width = form.shape
    grey, white = channels == 1, UNKNOWN if form.white is None else form.white
    if isinstance(sample, Tensor):
        sample = sample.detach().cpu().numpy()
    if isinstance(sample, np.ndarray):
        try:
            images = _of_array(sample, form).samples
        except OfclError as error:
            raise UnusableSample(place, str(error)) from None
        if len(images) != 1:
            raise UnusableSample(place, f"an array of {len(images)} images; expected one")
        return np.asarray(images[0])
    is_file = isinstance(sample, str | Path | StoredImage)
    if not is_file and not hasattr(sample, "convert"):
        problem = f"{type(sample).__name__} is given; this model takes {form.words()}"
        raise UnusableSample(place, problem)
    resize = resize or form.resized
    side = width if resize and height == width else None
    try:
        if is_file:
            file = sample if isinstance(sample, StoredImage) else Path(sample)
            pixels = read_image(file, side, grey, white or None)
        else:
            pixels = image_pixels(sample, side, grey, white or None)
    except UnreadableImage as error:
        raise UnusableSample(place, str(error), names_itself=True) from None
    if pixels.shape != form.shape and resize:
        pixels = _resized(pixels, form)
    if pixels.shape != form.shape:
        name = f"'{sample}'" if is_file else "an image"
        found = f"{pixels.shape[2]} × {pixels.shape[1]}"
        raise UnusableSample(
            place,
            f"{name} has {found} pixels; this model takes {form.words()}. Let it be resized with "
            "--resize (in Python: resize=True)",
            names_itself=is_file,
        )
    return pixels


def _resized(pixels: np.ndarray, form: ImageForm) -> np.ndarray:
    """Brings an image (channels, height, width) to a form that is not square."""
    from PIL import Image

    channels, height, width = form.shape
    image = Image.fromarray(pixels[0] if channels == 1 else pixels.transpose(1, 2, 0))
    array = np.asarray(image.resize((width, height)))
    return array[None] if channels == 1 else np.ascontiguousarray(array.transpose(2, 0, 1))


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Turns the columns of a table into rows."""
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _cell(place: int, sample: Any, meaning: Meaning, plain: Any) -> Any:
    """Reads the sample of a row by its columns; a sample that is no row is taken as it is.

    Args:
        place: The number of the sample, for messages.
        sample: The sample.
        meaning: The columns that make a sample.
        plain: The types of a sample that is not in a row.
    """
    if isinstance(sample, Mapping):
        if missing := [name for name in meaning.columns if name not in sample]:
            raise UnusableSample(
                place, f"column '{missing[0]}' is missing; it has {', '.join(sample)}"
            )
        try:
            return meaning.sample(sample)
        except ValueError as error:
            raise UnusableSample(place, str(error)) from None
    if not isinstance(sample, plain):
        kind = "texts" if meaning.kind == "text" else "rows of numbers"
        raise UnusableSample(place, f"{type(sample).__name__} is given; this model takes {kind}")
    return sample


def _named(place: int, sample: Any, form: TableForm) -> Mapping[str, Any]:
    """Returns a row by the names of its columns; a list of cells has them in the form's order."""
    if isinstance(sample, Mapping):
        return sample
    cells = _plain(sample)
    if not isinstance(cells, list | tuple) or len(cells) != len(form.columns):
        raise UnusableSample(place, f"this model takes {form.words()}")
    return dict(zip(form.columns, cells, strict=True))


def _plain(sample: Any) -> Any:
    """Turns an array or tensor into a list; leaves other samples as they are."""
    return sample.tolist() if isinstance(sample, np.ndarray | Tensor) else sample


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple | np.ndarray | Tensor)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _numbers(place: int, row: Sequence[Any]) -> np.ndarray:
    """Turns a row of numbers into an array of 64 bits."""
    try:
        return _finite(np.array(row, dtype=np.float64))
    except (TypeError, ValueError, OverflowError, OfclError):
        raise UnusableSample(place, "a value is not a number, or too large for one") from None


def _finite(array: np.ndarray) -> np.ndarray:
    """Returns an array; raises an error if a value is no number of 32 bits."""
    if not (np.abs(array) <= np.finfo(np.float32).max).all():
        raise OfclError("a value is not a number, or too large for one")
    return array
