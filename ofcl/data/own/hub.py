"""A dataset of the Hugging Face hub by its id, with its own columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ofcl.data.labels import NotALabel, label_name
from ofcl.data.own.arrays import image_arrays
from ofcl.data.own.image_folder import TEST_NAMES
from ofcl.data.own.table_files import raw_of_tables
from ofcl.data.raw import Found, Raw, gather
from ofcl.data.reading import Damage, Reading
from ofcl.data.tables import Table
from ofcl.errors import OfclError

HUB = "hf:"


def hub_dataset(name: str, how: Reading) -> Raw:
    """A dataset of the Hugging Face hub, or of a folder that looks like one; `name@config`."""
    try:
        import datasets
    except ImportError:
        raise OfclError(
            "the hub needs the package datasets; install it with: pip install 'ofcl[hub]'"
        ) from None
    name, _, config = name.partition("@")
    try:
        found = datasets.load_dataset(name, config or None)
    except Exception as error:  # of the network, the hub, the files
        reason = str(error).strip().split("\n")[0]
        raise OfclError(f"the dataset '{HUB}{name}' cannot be loaded ({reason})") from None
    train = next((key for key in ("train", *found) if key in found), None)
    if train is None:
        raise OfclError(f"the dataset '{HUB}{name}' is empty")
    test = next((key for key in TEST_NAMES if key in found and key != train), None)
    splits = {"train": found[train], **({"test": found[test]} if test else {})}
    damage = Damage(how.on_bad)
    images = [n for n, f in splits["train"].features.items() if type(f).__name__ == "Image"]
    if images and how.text is None:
        return _hub_images(name, splits, images[0], how)
    tables = {part: _hub_table(f"{name} ({part})", split) for part, split in splits.items()}
    return raw_of_tables(name.rsplit("/", 1)[-1], tables, how, damage)


def _hub_table(name: str, split: Any) -> Table:
    columns = {}
    for column, feature in split.features.items():
        values = split[column][:]
        names = getattr(feature, "names", None)  # of a ClassLabel
        if names is not None:
            values = [None if v is None or v < 0 else names[v] for v in values]
        columns[column] = values
    return Table(name, columns, list(range(1, len(split) + 1)))


def _hub_images(name: str, splits: dict[str, Any], column: str, how: Reading) -> Raw:
    from PIL import ImageOps

    first = _hub_table(name, splits["train"].remove_columns(column))
    guess = {"label", "labels", "class"} & first.columns.keys()
    label = how.label or (min(guess) if guess else "label")
    first.column(label)
    side, grey = how.image_size, splits["train"][0][column].mode in ("L", "1", "LA")
    found: dict[str, Found] = {}
    for part, split in splits.items():
        names = _hub_table(f"{name} ({part})", split.remove_columns(column)).column(label)
        pixels = []
        for row in how.track(range(len(split)), "reading images"):
            image = ImageOps.exif_transpose(split[row][column]).convert("L" if grey else "RGB")
            pixels.append(np.asarray(image.resize((side, side)) if side else image))
        if len({p.shape for p in pixels}) > 1:
            raise OfclError(f"'{HUB}{name}': images of different sizes; choose one: --image-size")
        found[part] = image_arrays(np.stack(pixels), name), _hub_names(names)
    return gather(name.rsplit("/", 1)[-1], "images", found)


def _hub_names(values: Sequence[Any]) -> list[str]:
    try:
        return [label_name(value) for value in values]
    except NotALabel as error:
        raise OfclError(str(error)) from None
