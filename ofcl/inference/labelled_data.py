"""Labelled samples to evaluate a model on: the test part of data, or all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ofcl.bundle.given_samples import collect
from ofcl.data.files.arrays import image_arrays, pixel_unit, read_arrays
from ofcl.data.files.cells import read_label
from ofcl.data.files.columns import find_label
from ofcl.data.files.labels import whole_numbers
from ofcl.data.files.tables import read_table, table_format
from ofcl.data.loading import read_raw
from ofcl.data.named.catalogue import DATASETS
from ofcl.data.options import Damage, Reading
from ofcl.data.own.array_files import KEYS, array_part
from ofcl.data.own.hub import HUB
from ofcl.data.own.image_folder import TEST_NAMES, TRAIN_NAMES, images_of_classes
from ofcl.data.raw import Content, Raw, Samples
from ofcl.data.sample_forms import ImageForm, SampleForm, TextForm
from ofcl.errors import OfclError
from ofcl.inference.input_rows import Lot, Lots

WhichPart = Literal["train", "test", "all"]

TAKEN: dict[str, tuple[str, ...]] = {
    "image": ("image files", "images"),
    "table": ("rows", "table", "vectors"),
    "text": ("rows", "texts"),
    "vector": ("rows", "vectors", "table"),
}
"""The kinds of samples that a model with each form of samples can take."""


@dataclass(frozen=True)
class Piece:
    """A part of labelled data.

    Args:
        content: The kind of its samples; `rows`: values by column.
        samples: The samples, undecoded.
        labels: The label of each sample.
        notes: Lines that a user of these data should read.
        where: The place of each sample, for messages; empty: they are counted.
    """

    content: Content | Literal["rows"]
    samples: Samples
    labels: Sequence[str]
    notes: tuple[str, ...] = ()
    where: Sequence[str] = ()


@dataclass(frozen=True)
class Labelled:
    """Samples with their labels.

    Args:
        name: The name of the data and their part, for people.
        samples: The samples, undecoded.
        labels: The label of each sample.
        notes: Lines that a user of these data should read.
        where: The place of each sample, for messages; empty: they are counted.
    """

    name: str
    samples: Samples
    labels: Sequence[str]
    notes: tuple[str, ...] = ()
    where: Sequence[str] = ()

    def only(self, rows: Sequence[int]) -> Labelled:
        """Returns some of the samples.

        Args:
            rows: Their rows.
        """
        if len(rows) == len(self.labels):
            return self
        if isinstance(self.samples, np.ndarray):
            samples: Samples = self.samples[np.array(rows, dtype=np.int64)]
        else:
            samples = [self.samples[row] for row in rows]
        where = [self.where[row] for row in rows] if self.where else ()
        labels = [self.labels[row] for row in rows]
        return replace(self, samples=samples, labels=labels, where=where)

    def lots(self, size: int, damage: Damage) -> Lots:
        """Cuts the samples into lots, which go through a model one after the other.

        Args:
            size: The number of samples in a lot.
            damage: Is handed on with the lots; collects samples that cannot be decoded.
        """

        def read() -> Iterator[Lot]:
            """Yields the lots."""
            for start in range(0, len(self.labels), size):
                rows = range(start, min(start + size, len(self.labels)))
                where = [
                    self.where[row] if self.where else f"'{self.name}', sample {row}"
                    for row in rows
                ]
                some: Any = self.samples[start : start + size]
                yield Lot(list(rows), some, where)

        return Lots(len(self.labels), size, read, damage)


def read_labelled(
    data: str,
    form: SampleForm,
    how: Reading,
    part: WhichPart | None = None,
    tell: Callable[[str], None] = print,
) -> Labelled:
    """Reads labelled samples, which are not decoded yet.

    Args:
        data: A path, a name in `DATASETS`, or `hf:` and an id of the Hugging Face hub.
        form: The form of the model's samples.
        how: The options of reading.
        part: The part that is read; None: the test part if there is one, else all.
        tell: Is given a line for the user when a download begins.

    Raises:
        OfclError: If the data cannot be read, lack that part, or are nothing that the model takes.
    """
    if how.label is None and not isinstance(form, ImageForm):
        how = replace(how, label=form.label)
    if isinstance(form, TextForm):
        how = replace(how, text=how.text or form.column)
    if data in DATASETS or data.startswith(HUB):
        parts = _parts_of_raw(read_raw(data, how, tell))
    else:
        parts = _parts_of_path(Path(data).expanduser(), form, how)
    names = _chosen(list(parts), data, part)
    pieces = [parts[name] for name in names]
    if wrong := [piece.content for piece in pieces if piece.content not in TAKEN[form.kind]]:
        raise OfclError(f"'{data}' has {wrong[0]}; this model takes {form.words()}")
    labels = [label for piece in pieces for label in piece.labels]
    if not labels:
        raise OfclError(f"'{data}' has no labelled samples")
    notes = {note: None for piece in pieces for note in piece.notes}
    where = data if len(parts) == 1 and "train" in parts else f"{data} ({', '.join(names)})"
    samples = _joined([piece.samples for piece in pieces])
    if isinstance(samples, np.ndarray):
        try:
            samples = collect(samples, form).samples  # checks their shape
        except OfclError as error:
            raise OfclError(f"'{data}': {error}") from None
    places = [place for piece in pieces for place in piece.where]
    return Labelled(where, samples, labels, tuple(notes), places)


def _chosen(parts: list[str], data: str, part: WhichPart | None) -> list[str]:
    """Lists the names of the parts that are asked for.

    Raises:
        OfclError: If the data lack the part.
    """
    if part is None:
        return ["test"] if "test" in parts else parts
    if part == "all":
        return parts
    if part not in parts:
        raise OfclError(f"'{data}' has no {part} part; it has {', '.join(parts)}")
    return [part]


def _joined(several: Sequence[Samples]) -> Samples:
    """Puts the samples of several parts together."""
    if len(several) == 1:
        return several[0]
    if all(isinstance(some, np.ndarray) for some in several):
        return np.concatenate([np.asarray(some) for some in several])
    return [sample for some in several for sample in some]


def _parts_of_raw(raw: Raw) -> dict[str, Piece]:
    """Takes the parts of raw data."""
    parts = {"train": raw.train, "test": raw.test, "validation": raw.validation}
    return {
        name: Piece(raw.content, part.samples, [raw.labels[c] for c in part.y.tolist()], raw.notes)
        for name, part in parts.items()
        if part is not None
    }


def _parts_of_path(path: Path, form: SampleForm, how: Reading) -> dict[str, Piece]:
    """Reads each part of data at a path, also where there is a test part only."""
    if not path.exists():
        raise OfclError(f"no file, folder or dataset '{path}'")
    try:
        if path.is_dir() and isinstance(form, ImageForm):
            return _image_parts(path)
        if path.suffix.lower() == ".npz":
            return _array_parts(path, how)
        if path.is_dir() or table_format(path):
            return _table_parts(path, form, how)
    except OSError as error:
        raise OfclError(f"'{error.filename}' cannot be read ({error.strerror})") from None
    raise OfclError(
        f"'{path}': labelled samples are expected, in a folder of images (a subfolder a class), "
        ".npz, .csv, .tsv, .jsonl or .parquet"
    )


def _image_parts(path: Path) -> dict[str, Piece]:
    """Lists the images of a folder: of its `train/` and `test/`, or of its classes."""
    folders = {p.name.lower(): p for p in sorted(path.iterdir()) if p.is_dir()}
    named = {"train": _first(folders, TRAIN_NAMES), "test": _first(folders, TEST_NAMES)}
    parts = {}
    for name, folder in named.items():
        if folder is not None and any(images_of_classes(folder).values()):
            parts[name] = folder
    pieces = {}
    for name, folder in (parts or {"train": path}).items():
        by_class = images_of_classes(folder)
        labelled = [(file, label) for label, files in by_class.items() for file in files]
        files, labels = [file for file, _ in labelled], [label for _, label in labelled]
        pieces[name] = Piece("image files", files, labels)
    if not any(piece.labels for piece in pieces.values()):
        raise OfclError(f"no images in the subfolders of '{path}'; expected '{path}/CLASS/….png'")
    return pieces


def _array_parts(path: Path, how: Reading) -> dict[str, Piece]:
    """Reads the arrays of an npz file."""
    arrays, damage = read_arrays(path), Damage(how.on_bad)
    names = [(part, keys[n : n + 2]) for keys in KEYS for part, n in (("train", 0), ("test", 2))]
    found: dict[str, tuple[np.ndarray, list[str]]] = {}
    for part, (x, y) in names:
        if x in arrays and y in arrays and part not in found:
            found[part] = array_part(path, arrays, x, y, damage)
    if not found:
        raise OfclError(
            f"'{path.name}' has the arrays {', '.join(arrays) or 'none'}; expected x and y, or "
            "x_test and y_test, or test_images and test_labels"
        )
    unit = pixel_unit([x for x, _ in found.values()])
    return {
        part: Piece("vectors", x, labels, damage.notes(path.name))
        if x.ndim == 2
        else Piece("images", image_arrays(x, f"'{path.name}'", unit), labels)
        for part, (x, labels) in found.items()
    }


def _table_parts(path: Path, form: SampleForm, how: Reading) -> dict[str, Piece]:
    """Reads a table; of a folder its train and test tables, or all if there are none."""
    damage = Damage(how.on_bad)
    files = {"train": [path]}
    if path.is_dir():
        tables = [p for p in sorted(path.iterdir()) if table_format(p)]
        by_name = {p.name.split(".")[0].lower(): p for p in tables}
        found = {"train": _first(by_name, TRAIN_NAMES), "test": _first(by_name, TEST_NAMES)}
        files = {part: [p] for part, p in found.items() if p is not None} or {"train": tables}
        if not tables:
            raise OfclError(f"no tables in '{path}'; this model takes {form.words()}")
    pieces = {}
    for part, some in files.items():
        rows: list[dict[str, Any]] = []
        labels: list[str] = []
        where: list[str] = []
        for file in some:
            table = read_table(file, damage)
            label = find_label(table, how)
            for n, line in enumerate(table.lines):
                row = {name: values[n] for name, values in table.columns.items()}
                place = f"'{file.name}', line {line}"
                try:
                    labels.append(read_label(row[label], label))
                except ValueError as error:
                    damage.report(f"{place}: {error}", line)
                    continue
                rows.append(row)
                where.append(place)
        notes = damage.notes(path.name)
        pieces[part] = Piece("rows", rows, whole_numbers(labels), notes, where)
    return pieces


def _first(paths: dict[str, Path], names: Sequence[str]) -> Path | None:
    """Returns the path of the first of `names` that `paths` has; None: it has none of them."""
    return next((paths[name] for name in names if name in paths), None)
