"""A dataset of the Hugging Face hub by its id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ofcl.data.files.columns import LABEL_NAMES
from ofcl.data.files.images import ImageFile, StoredImage
from ofcl.data.files.labels import NotALabel, check_labels, label_name
from ofcl.data.files.whole_table import Table
from ofcl.data.options import Damage, Reading
from ofcl.data.own.image_folder import TEST_NAMES
from ofcl.data.own.table_files import raw_of_tables
from ofcl.data.raw import LabelledSamples, Raw, raw_from_labelled
from ofcl.errors import OfclError

HUB = "hf:"


def hub_dataset(name: str, how: Reading) -> Raw:
    """Loads a dataset of the Hugging Face hub, or of a local folder in the hub's layout.

    Args:
        name: The id or folder, followed by `@` and the name of a configuration if need be.
        how: The options of reading.

    Raises:
        OfclError: The package datasets is not installed, or the dataset cannot be loaded.
    """
    try:
        import datasets
    except ImportError:
        raise OfclError(
            "the hub needs the package datasets; install it with: pip install 'ofcl[hub]'"
        ) from None
    name, _, config = name.partition("@")
    try:
        dataset = datasets.load_dataset(name, config or None)
    except Exception as error:  # of the network, the hub, the files
        reason = str(error).strip().split("\n")[0]
        raise OfclError(f"the dataset '{HUB}{name}' cannot be loaded ({reason})") from None
    return raw_of_splits(name, dataset, how)


def raw_of_splits(name: str, dataset: Any, how: Reading) -> Raw:
    """Makes raw data from the splits of a dataset of the hub.

    Args:
        name: The id of the dataset.
        dataset: The splits by name, each a `datasets.Dataset`.
        how: The options of reading.

    Raises:
        OfclError: If there is no split, or the samples cannot be used.
    """
    train = next((key for key in ("train", *dataset) if key in dataset), None)
    if train is None:
        raise OfclError(f"the dataset '{HUB}{name}' is empty")
    test = next((key for key in TEST_NAMES if key in dataset and key != train), None)
    splits = {"train": dataset[train]}
    if test:
        splits["test"] = dataset[test]
    damage = Damage(how.on_bad)
    features = splits["train"].features
    images = [column for column, kind in features.items() if type(kind).__name__ == "Image"]
    if images and how.text is None:
        return _hub_images(name, splits, images[0], how, damage)
    tables = {part: _hub_table(f"{name} ({part})", split) for part, split in splits.items()}
    return raw_of_tables(name.rsplit("/", 1)[-1], tables, how, damage)


def _hub_table(name: str, split: Any) -> Table:
    """Reads a split of a dataset of the hub as a table, with labels in place of class numbers.

    Args:
        name: The name of the table, for messages.
        split: The split, a `datasets.Dataset`.
    """
    columns = {}
    for column, feature in split.features.items():
        values = split[column][:]
        names = getattr(feature, "names", None)  # of a ClassLabel
        if names is not None:  # the hub writes a missing label as −1
            values = [None if v is None or v < 0 else names[v] for v in values]
        columns[column] = values
    return Table(name, columns, list(range(1, len(split) + 1)))


def _hub_images(
    name: str, splits: dict[str, Any], column: str, how: Reading, damage: Damage
) -> Raw:
    """Makes raw data from the images of a dataset of the hub, which are not decoded yet.

    Args:
        name: The id of the dataset.
        splits: The splits `train` and perhaps `test`, each a `datasets.Dataset`.
        column: The column of the images.
        how: The options of reading, which may name the column of the labels.
        damage: Samples without a usable label are reported to it.
    """
    import datasets

    parts: dict[str, LabelledSamples] = {}
    for part, split in splits.items():
        where = f"{name} ({part})"
        others = _hub_table(where, split.remove_columns(column))
        label = how.label or next((n for n in LABEL_NAMES if n in others.columns), "label")
        files, names = [], []
        # Undecoded: `read_images` finds out later which of them cannot be read.
        stored = split.cast_column(column, datasets.Image(decode=False))[column]
        for row, (image, value) in enumerate(zip(stored, others.column(label), strict=True), 1):
            try:
                names.append(label_name(value))
            except NotALabel as error:
                damage.report(f"'{where}', row {row}: {error}")
            else:
                files.append(_hub_file(image or {}, f"{where}, row {row}"))
        parts[part] = files, names
    check_labels(f"column '{label}' of '{name}'", parts["train"][1])
    return raw_from_labelled(name.rsplit("/", 1)[-1], "image files", parts, damage.notes(name))


def _hub_file(image: dict[str, Any], where: str) -> ImageFile:
    """Returns an image of the hub as a path, or with its bytes if it has no file of its own.

    Args:
        image: The image as the hub stores it: its `bytes`, its `path`, or both.
        where: The place of the image in the dataset, for messages.
    """
    data, path = image.get("bytes"), image.get("path")
    return Path(path) if path and data is None else StoredImage(where, data or b"")
