"""The form of samples that arrive: what the first one is, all others must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ofcl.data.dataset import Dataset
from ofcl.data.files.embedders import Embedder, find_embedder
from ofcl.data.files.text import embed
from ofcl.data.standardisation import Standardisation
from ofcl.state import State

MEAN, STD = 0.5, 0.25
"""Images that arrive are normalised with these: every party the same, and from the first one on."""

Kind = Literal["image", "vector", "text"]


@dataclass
class Pattern:
    """What all parties' samples look like; found from the first sample of any."""

    kind: Kind | None = None
    shape: tuple[int, ...] = ()


class Form:
    """What a party's samples look like, and how a model takes them.

    `window` asks for numbers to be standardised by the first so many samples.
    """

    def __init__(
        self,
        pattern: Pattern,
        *,
        embedder: str = "e5-small-v2",
        root: Path = Path(),
        window: int | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._pattern = pattern
        self._embedder, self._root, self._device = embedder, root, device
        self._found: Embedder | None = None
        self._window = window
        self._standardise: Standardisation | None = None  # once the window is full

    def checked(self, x: Any) -> np.ndarray | str:
        """A sample in the form of the first one; ValueError says what is wrong with it."""
        value = x if isinstance(x, str) else _array(x)
        if isinstance(value, str):
            if not value.strip():
                raise ValueError("the text is empty")
            found = Pattern("text")
        else:
            found = Pattern("image" if value.ndim == 3 else "vector", value.shape)
        if self._pattern.kind is None:
            self._pattern.kind, self._pattern.shape = found.kind, found.shape
        elif found != self._pattern:
            hint = "; --image-size brings them to one" if found.kind == "image" else ""
            raise ValueError(f"{_words(found)}, but so far it was {_words(self._pattern)}{hint}")
        return value

    def fit(self, pending: Sequence[Any], ended: bool) -> bool:
        """Fits what a window is asked for; False: it is not full yet, and nothing can be made."""
        if self._window is None or self._standardise is not None or self._pattern.kind != "vector":
            return True
        if len(pending) < self._window and not ended:
            return False
        rows = [s.x for s in pending if not s.problem]
        if len(rows) < self._window and not (ended and rows):
            return False
        window = np.stack(rows[: self._window])
        self._standardise = Standardisation.of(window.astype(np.float64))
        return True

    def tensor(self, samples: Sequence[Any]) -> Tensor:
        """Samples as a model takes them (n, …)."""
        if self._pattern.kind == "text":
            return torch.from_numpy(self._embed(samples)).to(self._device)
        x = np.stack(samples)
        if self._pattern.kind == "image":
            return (torch.from_numpy(x).to(self._device).float() / 255 - MEAN) / STD
        if self._standardise is not None:
            # What hardly varied in the window may be far out later; as far as numbers go.
            x = np.nan_to_num(self._standardise(x))
        return torch.from_numpy(x.astype(np.float32)).to(self._device)

    def empty(self, name: str, labels: tuple[str, ...]) -> Dataset:
        """A dataset without samples, for those who build a model of this form."""
        kind: Literal["image", "vector"] = "image" if self._pattern.kind == "image" else "vector"
        shape = self._pattern.shape
        if self._pattern.kind == "text":
            shape = self._embed(["a text"]).shape[1:]
        x = torch.empty(0, *shape, dtype=torch.uint8 if kind == "image" else torch.float)
        y = torch.empty(0, dtype=torch.long)
        mean, std = ((v,) * shape[0] if kind == "image" else () for v in (MEAN, STD))
        return Dataset(name, kind, x, y, x, y, labels, mean, std)

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        self._found = self._found or find_embedder(self._embedder)
        return embed(texts, self._found, self._root)

    def state(self) -> State:
        """Everything but the pattern, for a checkpoint; no sample is in it."""
        found = self._standardise
        if found is None:
            return {"mean": None, "scale": None}
        return {"mean": torch.from_numpy(found.mean), "scale": torch.from_numpy(found.scale)}

    def load_state(self, state: State) -> None:
        """Puts back what `state` took."""
        if state["mean"] is not None:
            self._standardise = Standardisation(state["mean"].numpy(), state["scale"].numpy())


def _array(x: Any) -> np.ndarray:
    """A vector of numbers, or an image as uint8 (channels, height, width)."""
    if isinstance(x, Tensor):
        x = x.detach().cpu().numpy()
    try:
        value = np.asarray(x)
    except (ValueError, TypeError):
        raise ValueError("neither a text, numbers nor an image") from None
    if value.dtype.kind not in "buif":
        raise ValueError("neither a text, numbers nor an image")
    if value.ndim == 2:
        value = value[None]
    elif value.ndim == 3 and value.shape[0] not in (1, 3) and value.shape[2] in (1, 3):
        value = value.transpose(2, 0, 1)
    if (
        value.ndim not in (1, 3)
        or value.size == 0
        or (value.ndim == 3 and len(value) not in (1, 3))
    ):
        raise ValueError(f"shape {np.shape(x)} is neither a vector's nor an image's")
    if not (np.abs(value.astype(np.float64)) <= np.finfo(np.float32).max).all():
        raise ValueError("a value is not a number, or too large for one")
    if value.ndim == 1:
        return value.astype(np.float64)
    if value.dtype == np.uint8:
        return np.ascontiguousarray(value)
    if value.min() < 0 or value.max() > 255:
        raise ValueError(f"pixels from {value.min():g} to {value.max():g}; expected 0 to 255")
    scale = 255 if value.dtype.kind == "f" and value.max() <= 1 else 1
    return np.round(value * scale).astype(np.uint8)


def _words(pattern: Pattern) -> str:
    shape = " × ".join(map(str, pattern.shape))
    return f"{pattern.kind}s" + (f" of {shape}" if shape else "")
