"""Datasets of other libraries: PyTorch's (`torch.utils.data.Dataset`) and the hub's `datasets`.

Their own transforms are applied, once for each sample: a stream shows a sample once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ofcl.data.dataset import Dataset
from ofcl.data.files.columns import LABEL_NAMES
from ofcl.data.files.labels import check_labels, label_name
from ofcl.data.options import Reading
from ofcl.data.own.hub import raw_of_splits
from ofcl.data.preparation import make_dataset
from ofcl.data.raw import Content, LabelledSamples, check_same_shape, raw_from_labelled
from ofcl.errors import OfclError

INPUT_NAMES = ("image", "img", "pixel_values", "x", "input", "inputs", "features")


def dataset_of(train: Any, test: Any, how: Reading) -> Dataset:
    """Makes a dataset of those of another library.

    Args:
        train: The samples to learn from: anything with a length whose items are (x, y) or have
            names; or a `datasets.Dataset` or `DatasetDict` of the hub. x is an image (PIL, array or
            tensor) or a vector.
        test: The samples to test on, of the same kind; None: a share of `train` is held out, or
            the dictionary has a test part.
        how: The options of reading.

    Raises:
        OfclError: If the samples cannot be used.
    """
    name = type(train).__name__
    if hasattr(train, "column_names"):  # of the hub
        splits = dict(train) if isinstance(train, Mapping) else {"train": train}
        if test is not None:
            splits["test"] = test
        return make_dataset(raw_of_splits(name, splits, how), how)
    parts = {"train": train} if test is None else {"train": train, "test": test}
    labels = getattr(train, "classes", None)
    read = {part: _read(given, labels, f"{name} ({part})", how) for part, given in parts.items()}
    notes: tuple[str, ...] = ()
    if np.asarray(read["train"][0]).ndim == 4:
        read, notes = _as_pixels(read)
    for x, _ in read.values():
        check_same_shape(name, np.asarray(read["train"][0]), np.asarray(x))
    check_labels(f"the labels of {name}", read["train"][1])
    content: Content = "images" if np.asarray(read["train"][0]).ndim == 4 else "vectors"
    return make_dataset(raw_from_labelled(name, content, read, notes), how)


def _read(given: Any, labels: Any, name: str, how: Reading) -> LabelledSamples:
    """Reads all samples of a dataset, one after the other.

    Args:
        given: The dataset.
        labels: The names of the classes; None: they go by their numbers.
        name: The name of the dataset, for messages.
        how: The options of reading, with the progress of long work.
    """
    try:
        numbers = range(len(given))
    except TypeError:
        raise OfclError(
            f"{name} has no length; hand over an iterable dataset as a stream: streams=[…]"
        ) from None
    samples: list[np.ndarray] = []
    names: list[str] = []
    for number in how.track(numbers, f"reading {name}"):
        x, y = _pair(given[number], name)
        array = _array(x)
        if samples and array.shape != samples[0].shape:
            raise OfclError(
                f"{name}: sample {number} is {array.shape}, the first is {samples[0].shape}; let a "
                "transform make them alike"
            )
        samples.append(array)
        y = y.item() if isinstance(y, torch.Tensor | np.generic) else y
        names.append(label_name(labels[y] if labels is not None and isinstance(y, int) else y))
    if not samples:
        raise OfclError(f"{name} has no samples")
    x_all = np.stack(samples)
    if x_all.ndim not in (2, 4):
        raise OfclError(f"{name}: a sample must be a vector or an image; it is {x_all.shape[1:]}")
    return x_all if x_all.ndim == 4 else x_all.astype(np.float32), names


def _pair(item: Any, name: str) -> tuple[Any, Any]:
    """Returns the input and the label of one item of a dataset."""
    if isinstance(item, Mapping):
        x = next((item[key] for key in INPUT_NAMES if key in item), None)
        y = next((item[key] for key in LABEL_NAMES if key in item), None)
        if x is None or y is None:
            raise OfclError(f"{name} has {', '.join(map(str, item))}; expected one of "
                            f"{', '.join(INPUT_NAMES)} and a label")  # fmt: skip
        return x, y
    if isinstance(item, tuple | list) and len(item) >= 2:
        return item[0], item[1]
    raise OfclError(f"the items of {name} must be (x, y); they are {type(item).__name__}")


def _array(x: Any) -> np.ndarray:
    """Turns an image or a vector into an array; images become (channels, height, width)."""
    if isinstance(x, torch.Tensor):
        array = x.detach().cpu().numpy()
    else:
        pixels = hasattr(x, "getbands")  # of PIL: height and width come first
        array = np.asarray(x)
        if pixels:
            array = array.transpose(2, 0, 1) if array.ndim == 3 else array
    if array.ndim == 2:
        array = array[None]
    if array.ndim == 3 and array.shape[0] not in (1, 3) and array.shape[2] in (1, 3):
        array = array.transpose(2, 0, 1)
    return array


def _as_pixels(
    parts: dict[str, LabelledSamples],
) -> tuple[dict[str, LabelledSamples], tuple[str, ...]]:
    """Turns images of floats into bytes, on one scale for all parts.

    Args:
        parts: The images (n, channels, height, width) and labels of each part.

    Returns:
        The parts, and a note if values outside of 0 to 1 were mapped.
    """
    arrays = {part: np.asarray(x) for part, (x, _) in parts.items()}
    if all(x.dtype == np.uint8 for x in arrays.values()):
        return parts, ()
    low = min(float(x.min()) for x in arrays.values())
    high = max(float(x.max()) for x in arrays.values())
    notes: tuple[str, ...] = ()
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif not (low >= 0 and high <= 255 and all(x.dtype.kind in "iu" for x in arrays.values())):
        notes = (f"values from {low:.3g} to {high:.3g} were mapped to 256 shades, and then "
                 "normalised by the train images",)  # fmt: skip
    else:
        low, high = 0.0, 255.0
    scale = 255 / ((high - low) or 1.0)
    turned: dict[str, LabelledSamples] = {
        part: (((arrays[part] - low) * scale).round().clip(0, 255).astype(np.uint8), names)
        for part, (_, names) in parts.items()
    }
    return turned, notes
