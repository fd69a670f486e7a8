"""What makes a dataset of data as they lie there: a part of them, a test part, tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ofcl.data.dataset import Dataset
from ofcl.data.files.images import read_images
from ofcl.data.files.text import embed
from ofcl.data.options import Damage, Reading
from ofcl.data.raw import Part, Raw, named
from ofcl.errors import OfclError
from ofcl.seeds import numpy_generator


def make_dataset(raw: Raw, how: Reading) -> Dataset:
    """Takes the part that is asked for, splits off a test part if there is none, makes tensors."""
    divided = raw.test is None
    train, test = train_and_test(raw, how)
    raw = replace(raw, train=train, test=test)
    damage = Damage(how.on_bad)
    make = _maker(raw, how, damage)
    (x_train, y_train), (x_test, y_test) = make(train), make(test)
    if divided and (strange := ~torch.isin(y_test, y_train)).any():
        # What was left out was all that a class had to learn from: it is all train, as in `split`.
        x_train, y_train = (
            torch.cat([x_train, x_test[strange]]),
            torch.cat([y_train, y_test[strange]]),
        )
        x_test, y_test = x_test[~strange], y_test[~strange]
    x_validation, y_validation = make(raw.validation) if raw.validation else (None, None)
    _check(raw, y_train.numpy(), y_test.numpy())
    if raw.content == "table" and not torch.cat([x_train, x_test]).isfinite().all():
        raise OfclError(
            f"'{raw.name}': a column hardly varies in {how.window} rows from all over and is too "
            "large in others; standardise from more rows with --set window=N, or mend the numbers"
        )
    notes = raw.notes + damage.notes(raw.name) + _untested(raw, y_train.numpy(), y_test.numpy())
    return Dataset(
        name=raw.name,
        kind="image" if raw.content in ("images", "image files") else "vector",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        labels=raw.labels,
        mean=raw.mean,
        std=raw.std,
        x_validation=x_validation,
        y_validation=y_validation,
        notes=notes,
    )


def train_and_test(raw: Raw, how: Reading) -> tuple[Part, Part]:
    """The part of the data that is asked for, before anything costly is done with it."""
    raw = subset(raw, how)
    _check(raw, raw.train.y, raw.test.y if raw.test else None)
    if raw.test is not None:
        return raw.train, raw.test
    train, test = split(raw.train, how.test_share)
    return train, _part(test, raw, "test", how.subset.test_head, how.subset.test_per_class)


def subset(raw: Raw, how: Reading) -> Raw:
    """The part of the data that is asked for; the same whatever the run's seed."""
    wanted = how.subset
    train = _part(raw.train, raw, "train", wanted.train_head, wanted.train_per_class)
    if raw.test is None:
        return replace(raw, train=train)
    test = _part(raw.test, raw, "test", wanted.test_head, wanted.test_per_class)
    return replace(raw, train=train, test=test)


def _part(part: Part, raw: Raw, what: str, head: int | None, per_class: int | None) -> Part:
    if head is not None:
        part = part[np.arange(min(head, len(part)))]
    if per_class is None:
        return part
    rows = []
    for c in range(len(raw.labels)):
        of_class = np.flatnonzero(part.y == c)
        drawn = numpy_generator(0, "subset", raw.name, what, c).permutation(of_class)[:per_class]
        rows.append(drawn)
    return part[np.sort(np.concatenate(rows))]


def split(part: Part, test_share: float) -> tuple[Part, Part]:
    """A share of every class for testing; the same whatever the run's seed.

    A class of a single sample is all train.

    >>> train, test = split(Part(np.arange(11), np.array([0] * 10 + [1])), 0.2)
    >>> len(train), test.y.tolist()
    (9, [0, 0])
    """
    held = np.zeros(len(part), dtype=bool)
    for c in np.unique(part.y).tolist():
        rows = numpy_generator(0, "test split", c).permutation(np.flatnonzero(part.y == c))
        wanted = max(round(len(rows) * test_share), 1)
        held[rows[: min(wanted, len(rows) - 1)]] = True
    return part[np.flatnonzero(~held)], part[np.flatnonzero(held)]


def _maker(raw: Raw, how: Reading, damage: Damage) -> Callable[[Part], tuple[Tensor, Tensor]]:
    """The function that makes tensors of a part's samples and labels."""
    make: Callable[[Any], np.ndarray | tuple[np.ndarray, np.ndarray]]
    match raw.content:
        case "image files":
            parts = [p.samples for p in (raw.train, raw.test, raw.validation) if p is not None]
            files = list(itertools.chain(*parts))
            make = read_images(files, how.image_size, damage, how.track)
        case "images":
            make = np.asarray
        case "texts":
            make = functools.partial(embed, embedder=how.embedder, root=how.root, track=how.track)
        case "table":
            # Rows from all over: files are often sorted by class.
            spread = np.linspace(0, len(raw.train) - 1, min(how.window, len(raw.train)))
            make = Standardisation.of(np.asarray(raw.train.samples)[spread.astype(int)])
        case "vectors":
            make = functools.partial(np.asarray, dtype=np.float32)

    def tensors(part: Part) -> tuple[Tensor, Tensor]:
        # Where nothing is left to test, one sample shows the shape that nothing has.
        shown: Any = part.samples if len(part) else raw.train[np.arange(1)].samples
        made = make(shown)
        x, kept = made if isinstance(made, tuple) else (made, np.arange(len(made)))
        x, y = (x, part.y[kept]) if len(part) else (x[:0], part.y)
        return torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(y).long()

    return tensors


@dataclass(frozen=True)
class Standardisation:
    """Brings columns to the mean 0 and deviation 1 that they have in a window.

    A column that does not vary there is only shifted; its deviation may still be above 0, as its
    mean is rounded.

    >>> Standardisation.of(np.array([[1.0, 5.0], [3.0, 5.0]]))(np.array([[5.0, 6.0]]))
    array([[3., 1.]], dtype=float32)
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, window: np.ndarray) -> Standardisation:
        """From the rows of a window, which are not kept."""
        mean, deviation = window.mean(axis=0), window.std(axis=0)
        varies = (window.max(axis=0) > window.min(axis=0)) & (deviation > 0)
        return cls(np.where(varies, mean, window[0]), np.where(varies, deviation, 1.0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Rows (n, columns), standardised."""
        with np.errstate(over="ignore"):
            return np.asarray((np.asarray(rows) - self.mean) / self.scale, dtype=np.float32)


def _check(raw: Raw, y_train: np.ndarray, y_test: np.ndarray | None) -> None:
    present = np.unique(y_train)
    if len(present) < 2:
        what = f"only the class '{raw.labels[int(present[0])]}'" if len(present) else "no samples"
        raise OfclError(f"'{raw.name}' has {what} to learn from; at least two classes are needed")
    if y_test is not None and (strange := np.setdiff1d(y_test, present)).size:
        raise OfclError(
            f"'{raw.name}': the test part has classes that the train part lacks "
            f"({named(raw.labels, strange)}), so nobody could ever learn them"
        )


def _untested(raw: Raw, y_train: np.ndarray, y_test: np.ndarray) -> tuple[str, ...]:
    untested = np.setdiff1d(y_train, y_test)
    if not untested.size:
        return ()
    return (f"no test samples of {named(raw.labels, untested)}: A and F say nothing of them",)
