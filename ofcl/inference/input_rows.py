"""Samples to be predicted, without labels: images, tables, texts and arrays, a lot at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ofcl.bundle.given_samples import collect, images_below
from ofcl.data.files.arrays import read_arrays
from ofcl.data.files.images import is_image
from ofcl.data.files.tables import table_format
from ofcl.data.files.text_lines import OPENERS
from ofcl.data.options import Damage
from ofcl.data.sample_forms import ImageForm, SampleForm, TextForm
from ofcl.errors import OfclError
from ofcl.inference.table_lots import count_rows, rows_of_table

ARRAYS = ("x", "images", "x_test", "test_images", "x_train", "train_images")
"""The names that the array of samples may have in an npz file; the first one that is there counts.
"""


class Lot(NamedTuple):
    """Some of the samples, as many as go through the model at once.

    Args:
        inputs: The name of each sample in the answers: a path, or the number of a line or row.
        samples: The samples, as `given_samples.collect` lists them.
        where: The place of each sample for messages; empty if its file's name is in them anyway.
        rows: The values of each row by column; empty where samples are from no table.
    """

    inputs: Sequence[Any]
    samples: Sequence[Any]
    where: Sequence[str]
    rows: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True)
class Lots:
    """All samples of an input, as lots that are read one after the other.

    Args:
        samples: The number of samples; of tables it is estimated by their lines.
        size: The number of samples of a lot.
        read: Yields the lots.
        damage: Lines that cannot be read were reported to it.
    """

    samples: int
    size: int
    read: Callable[[], Iterator[Lot]]
    damage: Damage = field(default_factory=Damage)

    def __len__(self) -> int:
        return -(-self.samples // self.size)

    def __iter__(self) -> Iterator[Lot]:
        return self.read()


def read_lots(path: Path, form: SampleForm, size: int, damage: Damage) -> Lots:
    """Finds out what an input is, and reads it.

    Args:
        path: A folder, an image, a table, a text with a sample on each line, or arrays.
        form: The form of the model's samples.
        size: The number of samples of a lot.
        damage: Lines of tables that cannot be read are reported to it.

    Raises:
        OfclError: If there is nothing at that path, or nothing that such a model takes.
    """
    if not path.exists():
        raise OfclError(f"no file or folder '{path}'")
    if isinstance(form, ImageForm) and (path.is_dir() or is_image(path)):
        files = images_below(path) if path.is_dir() else [path]
        return Lots(len(files), size, lambda: _of_files(files, size), damage)
    if path.suffix.lower() in (".npz", ".npy"):
        return _of_arrays(path, form, size, damage)
    tables = _tables_below(path, form) if path.is_dir() else [path]
    if isinstance(form, ImageForm) or not all(_is_table(table, form) for table in tables):
        raise OfclError(f"'{path}' is given; this model takes {form.words()}{_hint(form)}")
    prefix = f"{path}/" if path.is_dir() else ""
    return Lots(
        sum(map(count_rows, tables)),
        size,
        lambda: _of_tables(tables, prefix, size, damage),
        damage,
    )


def _hint(form: SampleForm) -> str:
    """Names the files that a model takes, for a message."""
    if isinstance(form, ImageForm):
        return ": a folder of images, one image, or an npz"
    texts = ", .txt (a text on each line)" if isinstance(form, TextForm) else ", .npz"
    return f" in .csv, .tsv, .jsonl, .parquet, .xlsx{texts}"


def _is_table(path: Path, form: SampleForm) -> bool:
    """Says whether a file has rows that a model for such samples can take."""
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in OPENERS]
    is_text = isinstance(form, TextForm) and suffixes[-1:] == [".txt"]
    return is_text or table_format(path) is not None


def _tables_below(folder: Path, form: SampleForm) -> list[Path]:
    """Lists the tables in a folder and all folders below it, in order.

    Raises:
        OfclError: If there are none.
    """
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and _is_table(path, form)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise OfclError(f"nothing in '{folder}' that this model takes: {form.words()}{_hint(form)}")
    return found


def _of_files(files: Sequence[Path], size: int) -> Iterator[Lot]:
    """Yields lots of image files, which are not opened yet."""
    for start in range(0, len(files), size):
        some = files[start : start + size]
        yield Lot([str(file) for file in some], some, [""] * len(some))


def _of_arrays(path: Path, form: SampleForm, size: int, damage: Damage) -> Lots:
    """Reads an npz or npy file, and cuts its samples into lots."""
    array, name = _array_of(path)
    try:
        samples: Any = collect(array, form)
    except OfclError as error:
        raise OfclError(f"'{path}', {name}: {error}") from None
    if samples.single:
        raise OfclError(f"'{path}', {name}: shape {array.shape}; expected (n, …), n samples")

    def read() -> Iterator[Lot]:
        """Yields the lots."""
        for start in range(0, len(samples.samples), size):
            some = samples.samples[start : start + size]
            rows = range(start, start + len(some))
            yield Lot(list(rows), some, [f"'{path}', {name}, row {row}" for row in rows])

    return Lots(len(samples.samples), size, read, damage)


def _array_of(path: Path) -> tuple[np.ndarray, str]:
    """Returns the array of samples in an npz or npy file, and its name."""
    if path.suffix.lower() == ".npy":
        try:
            return np.load(path, allow_pickle=False), "the array"
        except (OSError, ValueError, EOFError) as error:
            raise OfclError(f"'{path}' cannot be read as npy ({error})") from None
    arrays = read_arrays(path)
    name = next((name for name in ARRAYS if name in arrays), None)
    if name is None and len(arrays) == 1:
        (name,) = arrays
    if name is None:
        raise OfclError(
            f"'{path}' has the arrays {', '.join(arrays) or 'none'}; the samples must be called "
            f"{', '.join(ARRAYS[:-1])} or {ARRAYS[-1]}"
        )
    return arrays[name], name


def _of_tables(tables: Sequence[Path], prefix: str, size: int, damage: Damage) -> Iterator[Lot]:
    """Yields lots of rows; each row is called by its line, and by its table if there are several.

    Args:
        tables: The files.
        prefix: The folder that was given, with a slash; empty: one file was given.
        size: The number of rows of a lot.
        damage: Lines that cannot be read are reported to it.
    """
    for path in tables:
        name = str(path).removeprefix(prefix) if prefix else path.name
        lines: list[int] = []
        rows: list[dict[str, Any]] = []
        for line, row in rows_of_table(path, damage):
            lines.append(line)
            rows.append(row)
            if len(rows) == size:
                yield _rows_lot(name, lines, rows, bool(prefix))
                lines, rows = [], []
        if rows:
            yield _rows_lot(name, lines, rows, bool(prefix))


def _rows_lot(name: str, lines: list[int], rows: list[dict[str, Any]], several: bool) -> Lot:
    """Makes a lot of rows."""
    inputs = [f"{name}:{line}" for line in lines] if several else lines
    samples: list[Any] = [row.get("", row) if list(row) == [""] else row for row in rows]
    return Lot(inputs, samples, [f"'{name}', line {line}" for line in lines], rows)
