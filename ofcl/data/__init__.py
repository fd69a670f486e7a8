"""Data: dataset → scenario (classes → tasks → clients) → one stream of mini-batches a client."""

from __future__ import annotations

from collections.abc import Callable

from ofcl.data.builtin import digits, fashion_mini
from ofcl.data.dataset import Dataset
from ofcl.errors import unknown

DATASETS: dict[str, Callable[[], Dataset]] = {
    "digits": digits,
    "fashion-mini": fashion_mini,
}
"""Every dataset by name. A new one is a function in a file of its own and a line here."""


def load_dataset(name: str) -> Dataset:
    """A dataset by its name.

    >>> load_dataset("digits").shape
    (1, 8, 8)
    """
    if name not in DATASETS:
        raise unknown("dataset", name, DATASETS)
    return DATASETS[name]()
