"""The form of samples that arrive: the first sample sets it, and all others must have it too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ofcl.data.dataset import Dataset
from ofcl.data.feature_scaling import to_length_1
from ofcl.data.files.cells import read_number
from ofcl.data.files.embedders import Embedder, find_embedder
from ofcl.data.files.embeddings import CHUNK, embed, embed_images
from ofcl.data.files.image_embedders import embeds_images, find_image_embedder
from ofcl.data.live.live_agreement import Agreement, Row, agree_on, agree_on_features
from ofcl.data.live.sample import Sample
from ofcl.data.sample_forms import embedded_form
from ofcl.data.standardisation import Standardisation
from ofcl.data.token_samples import TokenSamples, makes_tokens
from ofcl.state import State

MEAN, STD = 0.5, 0.25
"""Mean and standard deviation of live images: fixed, so that all clients have the same."""

Kind = Literal["image", "vector", "text"]


@dataclass
class Pattern:
    """The kind and shape of all clients' samples, set by the first sample of any client.

    Args:
        kind: `image`, `vector` or `text`; None before the first sample.
        shape: The shape of a sample; () for texts.
    """

    kind: Kind | None = None
    shape: tuple[int, ...] = ()


class Form:
    """The form of one client's samples, and how they become a model's input.

    Args:
        pattern: The kind and shape, shared by all clients of a process.
        embedder: The model that turns texts, or images, into vectors.
        root: The folder of the cached embeddings.
        window: The number of first samples from which numbers are standardised; None: numbers are
            used as they are.
        device: The device for the tensors; None: the CPU.
        tokens: The number of tokens of a text that becomes token ids.
        weights: The folder of the network whose tokeniser makes them; None: package or hub.
        normalisation: Mean and standard deviation of each channel, by which images are normalised;
            None: those of all live images (`MEAN`, `STD`).
        named: Whether the user has named the columns of tables, so that none is left out.
        feature_window: The number of first images by whose vectors those of all are standardised;
            None: vectors keep length 1.

    Attributes:
        agreement: How rows and vectors become a model's input; None: nothing has been agreed on.
    """

    def __init__(
        self,
        pattern: Pattern,
        *,
        embedder: str = "e5-small-v2",
        root: Path = Path(),
        window: int | None = None,
        device: torch.device | None = None,
        tokens: int = 128,
        weights: str | None = None,
        normalisation: tuple[Sequence[float], Sequence[float]] | None = None,
        named: bool = False,
        feature_window: int | None = None,
    ) -> None:
        self._pattern, self._normalisation = pattern, normalisation
        self._feature_window = feature_window
        self._embedder_name, self._root, self._device = embedder, root, device
        self.token_samples: TokenSamples | None = None
        if makes_tokens(embedder):
            self.token_samples = TokenSamples(embedder, tokens, weights)
        self._embedder: Embedder | None = None  # found when the first text arrives
        self._window, self._named = window, named
        self.agreement: Agreement | None = None

    def check(self, x: Any) -> np.ndarray | str | Row:
        """Brings a sample into the form of the first one; the first one sets the form.

        Args:
            x: A text, numbers, a row, or an image in any of the usual layouts.

        Returns:
            The text, a vector (float64), an image (channels, height, width) uint8, or the row as it
            is; the cells of a row are read when it is known how.

        Raises:
            ValueError: The sample has another form, or none at all; the message says what is wrong.
        """
        if isinstance(x, Row):
            return self._check_row(x)
        if self.agreement is not None and self.agreement.codes:
            columns = ", ".join(self.agreement.columns)
            raise ValueError(f"no row; expected one with the columns {columns}")
        value = x if isinstance(x, str) else _array(x)
        if isinstance(value, str):
            if not value.strip():
                raise ValueError("the text is empty")
            pattern = Pattern("text")
        else:
            pattern = Pattern("image" if value.ndim == 3 else "vector", value.shape)
        if self._pattern.kind is None:
            self._pattern.kind, self._pattern.shape = pattern.kind, pattern.shape
        elif pattern.kind == self._pattern.kind == "image" and not self._pattern.shape:
            self._pattern.shape = pattern.shape  # a party that has come back knows only the kind
        elif pattern != self._pattern:
            hint = "; --image-size brings them to one" if pattern.kind == "image" else ""
            raise ValueError(f"{_words(pattern)}, but so far it was {_words(self._pattern)}{hint}")
        return value

    def _check_row(self, row: Row) -> np.ndarray | str | Row:
        """Checks a row by what has been agreed on; without a window, its cells are numbers."""
        if self._window is None and self.agreement is None:
            return self.check([read_number(cell, name) for name, cell in row.cells.items()])
        if self._pattern.kind not in (None, "vector"):
            raise ValueError(f"a row, but so far it was {_words(self._pattern)}")
        self._pattern.kind = "vector"
        if self.agreement is not None:
            if not self.agreement.columns:
                raise ValueError(f"a row, but so far it was {_words(self._pattern)}")
            self._pattern.shape = (len(self.agreement.standardise.mean),)
            self.agreement.meaning.sample(row.cells)
        return row

    @property
    def undecided(self) -> bool:
        """Whether samples cannot become tensors before there is an agreement."""
        return self.agreement is None and self._wanted is not None

    @property
    def _wanted(self) -> int | None:
        """How many first samples make an agreement; None: the samples need none."""
        if self.embeds_images:
            return self._feature_window
        return self._window if self._pattern.kind in (None, "vector") else None

    def window(self, pending: Sequence[Sample]) -> list[Any]:
        """Returns the first usable samples, from which an agreement is made; of images, vectors.

        Args:
            pending: The samples that have arrived and are in no batch yet.
        """
        usable = self._usable(pending)
        return list(self._features(np.stack(usable))) if self.embeds_images and usable else usable

    def _usable(self, pending: Sequence[Sample]) -> list[Any]:
        """Returns the first usable samples as they are, at most as many as are wanted."""
        return [sample.x for sample in pending if not sample.problem][: self._wanted]

    def window_is_full(self, pending: Sequence[Sample]) -> bool:
        """Says whether the samples that have arrived are enough for an agreement.

        Args:
            pending: The samples that have arrived and are in no batch yet.
        """
        wanted = (self._wanted or 1) if self.undecided else 1
        return len(pending) >= wanted and len(self._usable(pending)) >= wanted

    def fit(self, pending: Sequence[Sample], ended: bool) -> bool:
        """Makes an agreement of this stream's own samples, if nobody has made one for several.

        Args:
            pending: The samples that have arrived and are in no batch yet.
            ended: Whether no more samples will arrive; then one usable sample is enough.

        Returns:
            Whether samples can be turned into tensors; False while more samples are needed.
        """
        if not self.undecided or self._pattern.kind is None:
            return True
        if not self.window_is_full(pending) and not (ended and self._usable(pending)):
            return False
        self.take(self.agree_on([self.window(pending)]))
        return True

    def agree_on(self, windows: Sequence[Sequence[Any]]) -> Agreement:
        """Makes an agreement of the first samples of several clients.

        Args:
            windows: What `window` has returned for each client; at least one has samples.

        Raises:
            OfclError: None of the rows can be used.
        """
        if not self.embeds_images:
            return agree_on(windows, self._named)
        return agree_on_features([np.stack(window) for window in windows if window])

    def scale_features(self, window: int | None) -> None:
        """Decides anew whether vectors of images are standardised, before any of them is.

        Args:
            window: The number of first images that decide; None: vectors keep length 1.
        """
        self._feature_window, self.agreement = window, None

    def take(self, agreement: Agreement) -> None:
        """Takes over what has been agreed on.

        Args:
            agreement: How rows and vectors become a model's input.
        """
        self.agreement = agreement
        if not self.embeds_images:
            self._pattern.kind, self._pattern.shape = "vector", (len(agreement.standardise.mean),)

    def to_tensor(self, samples: Sequence[Any]) -> Tensor:
        """Turns samples into a model's input (n, …), on the device.

        Args:
            samples: Samples that `check` returned.
        """
        if self._pattern.kind == "image" and not self.embeds_images:
            x = torch.from_numpy(np.stack(samples)).to(self._device)
            return self._normalised(x.float() / 255)
        vectors = self.vectors(samples)
        if self.agreement is not None and self.embeds_images:
            vectors = to_length_1(self.agreement.standardise)(vectors)
        elif self.agreement is not None:
            # A column that hardly varied in the window may later exceed 32 bits: it is clamped.
            vectors = np.nan_to_num(self.agreement.standardise(vectors))
        return torch.from_numpy(vectors.astype(np.float32)).to(self._device)

    def vectors(self, samples: Sequence[Any]) -> np.ndarray:
        """Turns samples into vectors (n, d) that are not standardised.

        Args:
            samples: Samples that `check` returned; not images, unless these are embedded.
        """
        if self._pattern.kind == "text":
            return self._embed(samples)
        if self.embeds_images:
            return self._features(np.stack(samples))
        return self.agreement.vectors(samples) if self.agreement is not None else np.stack(samples)

    @property
    def standardisation(self) -> Standardisation | None:
        """The standardisation of numbers; None: it is not fitted yet, or there is none."""
        return self.agreement.standardise if self.agreement is not None else None

    def empty_dataset(self, name: str, labels: tuple[str, ...]) -> Dataset:
        """Makes a dataset without samples, from which a model of the right shape can be built.

        Args:
            name: The name of the dataset.
            labels: The labels that are known so far.
        """
        pixels = self._pattern.kind == "image" and not self.embeds_images
        kind: Literal["image", "vector", "tokens"] = "image" if pixels else "vector"
        if self._pattern.kind == "text" and self.token_samples is not None:
            kind = "tokens"
        shape = self._pattern.shape
        form = None
        if self._pattern.kind == "text":
            shape = self._embed(["a text"]).shape[1:]
        elif self.embeds_images:
            embedder = find_image_embedder(self._embedder_name)
            form = embedded_form(embedder, shape)
            shape = (embedder.length,)
        x = torch.empty(0, *shape, dtype=torch.uint8 if kind == "image" else torch.float)
        y = torch.empty(0, dtype=torch.long)
        mean, std = ((v,) * shape[0] if kind == "image" else () for v in (MEAN, STD))
        if self._normalisation is not None and kind == "image":
            mean, std = map(tuple, self._normalisation)
        return Dataset(name, kind, x, y, x, y, labels, mean, std, form=form)

    def _normalised(self, x: Tensor) -> Tensor:
        """Normalises images with values from 0 to 1, channel by channel."""
        if self._normalisation is None:
            return (x - MEAN) / STD
        mean, std = (x.new_tensor(v).view(-1, 1, 1) for v in self._normalisation)
        return (x - mean) / std

    @property
    def embeds_images(self) -> bool:
        """Whether the samples are images that become vectors."""
        return self._pattern.kind == "image" and embeds_images(self._embedder_name)

    def _features(self, images: np.ndarray) -> np.ndarray:
        """Returns the vectors (n, d) of images."""
        embedder = find_image_embedder(self._embedder_name)
        chunks = [images[first : first + CHUNK] for first in range(0, len(images), CHUNK)]
        return np.concatenate([embed_images(chunk, embedder, self._root) for chunk in chunks])

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the vectors (n, d) of texts, or their token ids."""
        if self.token_samples is not None:
            return self.token_samples(texts)
        self._embedder = self._embedder or find_embedder(self._embedder_name)
        return embed(texts, self._embedder, self._root)

    def state(self) -> State:
        """Returns what has been agreed on, for a checkpoint."""
        if self.agreement is None:
            return {"mean": None, "scale": None}
        return self.agreement.state()

    def load_state(self, state: State) -> None:
        """Takes over an agreement from a checkpoint.

        Args:
            state: The agreement that `state` returned.
        """
        if state["mean"] is not None:
            self.agreement = Agreement.from_state(state)


def _array(x: Any) -> np.ndarray:
    """Turns numbers into a vector (float64) or an image (channels, height, width) uint8.

    Args:
        x: Numbers as a list, an array or a tensor.

    Raises:
        ValueError: The shape or the values are neither a vector's nor an image's.
    """
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
    is_image = value.ndim == 3 and len(value) in (1, 3)
    if value.size == 0 or not (value.ndim == 1 or is_image):
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
    """Describes a pattern in words, for messages."""
    shape = " × ".join(map(str, pattern.shape))
    return f"{pattern.kind}s" + (f" of {shape}" if shape else "")
