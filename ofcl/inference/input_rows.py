"""Samples to be predicted, without labels: images, tables, texts and arrays.

An input may be larger than the memory. It is read in lots: runs of consecutive samples, of which
each goes through the model at once.
"""

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
    """Consecutive samples of an input, as many as go through the model at once.

    Args:
        inputs: The name of each sample in the answers: a path, or the number of a line or row.
        samples: The samples, not decoded yet, as `given_samples.collect` lists them.
        where: For each sample, its file and line or row, for messages. The empty string for image
            files: their messages name the file already.
        rows: Of a table, each row as values by column; else empty.
    """

    inputs: Sequence[Any]
    samples: Sequence[Any]
    where: Sequence[str]
    rows: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True)
class Lots:
    """All samples of an input, to iterate over lot by lot; `len` is the number of lots.

    Args:
        samples: The number of samples; for tables it is estimated from the number of lines.
        size: The number of samples in a lot; the last lot may have fewer.
        read: Reads the input from its beginning, and yields the lots.
        damage: Collects the lines that cannot be read, while the lots are read.
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
    """Finds out which kind of input is at a path, and prepares to read it in lots.

    Args:
        path: A folder of images or tables, an image, a table, a text file with a sample on each
            line, or an npz or npy file.
        form: The form of the model's samples, which decides what is accepted.
        size: The number of samples in a lot.
        damage: Collects lines of tables that cannot be read; or raises an error at the first one.

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
    """Lists the kinds of files that a model for such samples takes, for the end of a message."""
    if isinstance(form, ImageForm):
        return ": a folder of images, one image, or an npz"
    texts = ", .txt (a text on each line)" if isinstance(form, TextForm) else ", .npz"
    return f" in .csv, .tsv, .jsonl, .parquet, .xlsx{texts}"


def _is_table(path: Path, form: SampleForm) -> bool:
    """Says by its name whether a file is a table, or for a model of texts a text file."""
    suffixes = [s.lower() for s in path.suffixes if s.lower() not in OPENERS]
    is_text = isinstance(form, TextForm) and suffixes[-1:] == [".txt"]
    return is_text or table_format(path) is not None


def _tables_below(folder: Path, form: SampleForm) -> list[Path]:
    """Lists the tables (`_is_table`) in a folder and all folders below it, without hidden ones.

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
    """Yields lots of `size` image files, which are not opened yet."""
    for start in range(0, len(files), size):
        some = files[start : start + size]
        yield Lot([str(file) for file in some], some, [""] * len(some))


def _of_arrays(path: Path, form: SampleForm, size: int, damage: Damage) -> Lots:
    """Reads the samples of an npz or npy file, and cuts them into lots.

    Args:
        path: The file.
        form: The form of the model's samples; the array must have their shape.
        size: The number of samples in a lot.
        damage: Is handed on with the lots; an array has no lines that could be reported to it.

    Raises:
        OfclError: If the file cannot be read, or its array does not fit the model.
    """
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
    """Reads the array of samples in an npz or npy file; returns it and its name, for messages."""
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
    """Yields lots of rows, which never span two tables.

    Args:
        tables: The files.
        prefix: The folder that was given, with a slash: answers then name a row by its table in
            the folder and its line. Empty: one file was given, and answers name the line only.
        size: The number of rows in a lot.
        damage: Collects lines that cannot be read.
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
    """Makes a lot of consecutive rows of one table.

    Args:
        name: The name of the table.
        lines: The line of each row in the file, counted from 1.
        rows: The rows, as values by column; a line of a text file has one column without a name.
        several: Whether there are other tables, so that answers name the table too.
    """
    inputs = [f"{name}:{line}" for line in lines] if several else lines
    samples: list[Any] = [row.get("", row) if list(row) == [""] else row for row in rows]
    return Lot(inputs, samples, [f"'{name}', line {line}" for line in lines], rows)
