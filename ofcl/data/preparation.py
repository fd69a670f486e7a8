"""What makes a dataset of data as they lie there: a part of them, a test part, tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ofcl.data.dataset import Dataset
from ofcl.data.files.images import read_images
from ofcl.data.files.text import embed
from ofcl.data.options import Damage, Reading
from ofcl.data.raw import Part, Raw, named
from ofcl.data.selection import _check, train_and_test
from ofcl.data.standardisation import Standardisation
from ofcl.errors import OfclError


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


def _untested(raw: Raw, y_train: np.ndarray, y_test: np.ndarray) -> tuple[str, ...]:
    untested = np.setdiff1d(y_train, y_test)
    if not untested.size:
        return ()
    return (f"no test samples of {named(raw.labels, untested)}: A and F say nothing of them",)
