"""By path."""

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
    """Whether a dataset's name means a file, a folder or the hub rather than a known name.

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
    """Data by path; the kind is found from it."""
    if name.startswith(HUB):
        return hub_dataset(name.removeprefix(HUB), how)
    try:
        return _read_path(name, Path(name).expanduser(), how)
    except OSError as error:
        raise OfclError(f"'{error.filename}' cannot be read ({error.strerror})") from None
    except RuntimeError as error:  # of expanduser: nobody has that name
        raise OfclError(f"'{name}': {error}") from None


def _read_path(name: str, path: Path, how: Reading) -> Raw:
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
        ".tsv, .jsonl, .parquet (the texts also .gz, .bz2, .xz)"
    )
