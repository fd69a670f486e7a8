"""A user's own data by path: the path shows what kind of data they are."""

from __future__ import annotations

from pathlib import Path

from ofcl.data.files.tables import table_format
from ofcl.data.options import Reading
from ofcl.data.own.array_files import npz_file
from ofcl.data.own.hub import HUB, hub_dataset
from ofcl.data.own.image_folder import image_folder
from ofcl.data.own.table_files import table_files, tables_of_folder
from ofcl.data.raw import Raw
from ofcl.errors import OfclError


def looks_like_path(name: str) -> bool:
    """Says whether a dataset's name is a path or an id of the hub, not a name in `DATASETS`.

    Args:
        name: The name or path as the user wrote it.

    >>> looks_like_path("cifar10"), looks_like_path("data/mine.csv"), looks_like_path("hf:a/b")
    (False, True, True)
    """
    if name.startswith(HUB) or any(mark in name for mark in "/\\."):
        return True
    try:
        return Path(name).exists()
    except OSError:  # a name longer than any file has
        return False


def read_own(name: str, how: Reading) -> Raw:
    """Reads a user's own data by path or hub id.

    Args:
        name: The path of a file or folder, or `hf:` and an id of the Hugging Face hub.
        how: The options of reading.

    Raises:
        OfclError: There is nothing at that path, or it cannot be read.
    """
    if name.startswith(HUB):
        return hub_dataset(name.removeprefix(HUB), how)
    try:
        return _read_path(name, Path(name).expanduser(), how)
    except OSError as error:
        raise OfclError(f"'{error.filename}' cannot be read ({error.strerror})") from None
    except RuntimeError as error:  # of expanduser: there is no such user
        raise OfclError(f"'{name}': {error}") from None


def _read_path(name: str, path: Path, how: Reading) -> Raw:
    """Finds out what kind of data a file or folder is, and reads it.

    Args:
        name: The path as the user wrote it, for messages.
        path: The path of the file or folder.
        how: The options of reading.
    """
    if not path.exists():
        hint = f" For the Hugging Face hub write {HUB}{name}" if name.count("/") == 1 else ""
        raise OfclError(f"no file or folder '{name}', and no dataset of that name.{hint}")
    if path.is_dir():
        tables = tables_of_folder(path)
        return table_files(path.resolve().name, tables, how) if tables else image_folder(path)
    if path.suffix.lower() == ".npz":
        return npz_file(path, how)
    if table_format(path):
        return table_files(path.name.split(".")[0], {"train": path}, how)
    raise OfclError(
        f"'{name}': what is it? Known are folders of images (a subfolder a class), .npz, .csv, "
        ".tsv, .jsonl, .parquet, .xlsx (the texts also .gz, .bz2, .xz)"
    )
