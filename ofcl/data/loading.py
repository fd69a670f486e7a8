"""Loading a dataset: by name, or a user's own by path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ofcl.data.dataset import Dataset
from ofcl.data.named.catalogue import DATASETS
from ofcl.data.options import Reading
from ofcl.data.own.by_path import looks_like_path, read_own
from ofcl.data.preparation import make_dataset
from ofcl.data.raw import Raw
from ofcl.errors import OfclError, unknown
from ofcl.own_parts.kinds import installed, is_path
from ofcl.own_parts.lookup import find_function, required_parameters


def read_raw(name: str, how: Reading, tell: Callable[[str], None] = print) -> Raw:
    """Reads a dataset without decoding or embedding its samples yet; downloads it if need be.

    Args:
        name: A name in `DATASETS`, a path, or `hf:` and an id of the Hugging Face hub.
        how: The options of reading.
        tell: Called with a line for the user when a download begins.

    Raises:
        OfclError: There is no such dataset, or it cannot be read.
    """
    if name not in DATASETS:
        if looks_like_path(name):
            return read_own(name, how)
        known = [*DATASETS, *installed("dataset")]
        raise OfclError(f"{unknown('dataset', name, known)} (no file or folder '{name}' either)")
    source = DATASETS[name]
    source.prepare(name, how.root, tell)
    return source.read(how.root)


def own_dataset(name: str, how: Reading) -> Dataset:
    """Loads a dataset by code of a user's own.

    Args:
        name: The name under which an installed package announces it, or a path `module:name`.
        how: The options of reading, which the code is given if it takes one argument.

    Raises:
        OfclError: If the code gives no dataset.
    """
    load = find_function("dataset", name, {})
    made = load(how) if required_parameters(load) == 1 else load()
    if not isinstance(made, Dataset):
        raise OfclError(f"the dataset '{name}' must be an ofcl.Dataset; it is a "
                        f"{type(made).__name__}")  # fmt: skip
    return replace(made, source=name)


def load_dataset(
    name: str, how: Reading | None = None, tell: Callable[[str], None] = print
) -> Dataset:
    """Loads a dataset by name, or a user's own by path.

    Args:
        name: A name such as `cifar10`, a path, or `hf:` and an id of the Hugging Face hub.
        how: The options of reading; None: the default ones.
        tell: Called with a line for the user when a download begins.

    Raises:
        OfclError: There is no such dataset, or it cannot be used.

    >>> load_dataset("digits").shape
    (1, 8, 8)
    """
    how = how or Reading()
    if name not in DATASETS and (is_path(name) or name in installed("dataset")):
        return own_dataset(name, how)
    dataset = make_dataset(read_raw(name, how, tell), how)
    if name not in DATASETS and Path(name).expanduser().exists():
        return replace(dataset, source=str(Path(name).expanduser().resolve()))
    return replace(dataset, source=name)
