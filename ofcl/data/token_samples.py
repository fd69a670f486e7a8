"""Texts as token ids: samples for pretrained models of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ofcl.data.files.embedders import Embedder
from ofcl.data.sample_forms import TextForm
from ofcl.pretrained.tokens import TOKENS, find_tokeniser, tokenise


def makes_tokens(embedder: str) -> bool:
    """Says whether texts become token ids rather than vectors.

    Args:
        embedder: The value of the setting `embedder`.
    """
    return embedder.startswith(TOKENS)


@dataclass(frozen=True)
class TokenSamples:
    """Turns texts into the ids of their tokens (n, length), int32.

    Args:
        embedder: The value of the setting `embedder`, `tokens:NAME`.
        length: The number of tokens of a text.
        weights: The folder of the network; None: its package, or the hub.
    """

    embedder: str
    length: int
    weights: str | None = None

    @property
    def network(self) -> str:
        """The name of the network whose tokeniser makes them."""
        return self.embedder.removeprefix(TOKENS)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Turns texts into token ids.

        Args:
            texts: The texts.
        """
        return tokenise(texts, self.network, self.weights, length=self.length)

    def form(self, column: str | None, label: str | None) -> TextForm:
        """Describes these samples, so that others can be read in the same way.

        Args:
            column: The column of the texts in a table; None: it is not known.
            label: The column of the labels there; None: it is not known.
        """
        found = find_tokeniser(self.network, self.weights)
        embedder = Embedder(found.name, tokens=self.length, version=found.checksum)
        return TextForm(embedder, self.length, column, label, as_tokens=True)
