"""Loading a dataset: by name, or somebody's own by path."""

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
from ofcl.errors import unknown


def read_raw(name: str, how: Reading, tell: Callable[[str], None] = print) -> Raw:
    """A dataset by name or path, before anything costly is done with it."""
    if name not in DATASETS:
        if looks_like_path(name):
            return read_own(name, how)
        raise unknown("dataset", name, DATASETS)
    source = DATASETS[name]
    source.prepare(name, how.root, tell)
    return source.read(how.root)


def load_dataset(
    name: str, how: Reading | None = None, tell: Callable[[str], None] = print
) -> Dataset:
    """A dataset by name, or somebody's own by path.

    >>> load_dataset("digits").shape
    (1, 8, 8)
    """
    how = how or Reading()
    dataset = make_dataset(read_raw(name, how, tell), how)
    own = name not in DATASETS and Path(name).expanduser().exists()
    return replace(dataset, source=str(Path(name).expanduser().resolve()) if own else name)
