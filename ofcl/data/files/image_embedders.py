"""Embedders of images: pretrained networks that turn images into vectors, and are never trained.

An embedder is known by its name and by the SHA-256 of its weights: two parties, or a model and its
user, have the same vectors only if both are the same.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ofcl.data.files.embedder_networks import LITE0, TIMM, TRANSFORMERS, load_network
from ofcl.pretrained.weights import checksum


@dataclass(frozen=True)
class ImageEmbedder:
    """A pretrained network and its preprocessing, without the network itself.

    Args:
        name: The name by which it is asked for.
        weights: The SHA-256 of its weights.
        side: The side in pixels to which images are resized.
        mean: The mean of each channel on the scale [0, 1], for normalisation.
        std: The standard deviation of each channel, in the same way.
        interpolation: How pixels are resized: `bicubic` or `bilinear`.
        length: The numbers of a vector.
    """

    name: str
    weights: str
    side: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: str
    length: int

    def differs(self, other: ImageEmbedder) -> str | None:
        """Says in words how it differs from another one; None: both give the same vectors.

        Args:
            other: The other embedder, which may lie in another folder.
        """
        for field in ("weights", "side", "mean", "std", "interpolation", "length"):
            mine, theirs = getattr(self, field), getattr(other, field)
            if mine != theirs:
                return f"{field} {str(mine)[:16]}, not {str(theirs)[:16]}"
        return None


@dataclass(frozen=True)
class LoadedEmbedder:
    """An embedder with its network, which gives features (n, d) for prepared images.

    Args:
        facts: The embedder.
        network: The network, in evaluation mode.
    """

    facts: ImageEmbedder
    network: nn.Module


def embeds_images(name: str) -> bool:
    """Says whether a name is that of an embedder of images, rather than of texts.

    Args:
        name: The value of `embedder`.
    """
    return name == LITE0 or name.startswith((TIMM, TRANSFORMERS))


def public_name(name: str) -> str:
    """Returns an embedder's name without the folders of this machine.

    Args:
        name: The name by which it is asked for, perhaps with the path of a file or folder.

    >>> public_name("timm:resnet18@/home/ada/weights.safetensors"), public_name("hf:org/vit")
    ('timm:resnet18@weights.safetensors', 'hf:org/vit')
    """
    if name.startswith(TIMM) and "@" in name:
        network, _, file = name.partition("@")
        return f"{network}@{Path(file).name}"
    folder = Path(name.removeprefix(TRANSFORMERS)).expanduser()
    if name.startswith(TRANSFORMERS) and folder.exists():
        return f"{TRANSFORMERS}{folder.resolve().name}"
    return name


@functools.lru_cache(maxsize=1)
def load_image_embedder(name: str) -> LoadedEmbedder:
    """Loads a network, onto a GPU if there is one.

    Args:
        name: One of the names in `ACCEPTED`.

    Raises:
        OfclError: It cannot be had; the message says why, and what to do.
    """
    network, how = load_network(name)
    network = network.eval().requires_grad_(False)
    weights = checksum(network.state_dict())
    side = int(how["side"])
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad():
        blank = torch.zeros(1, 3, side, side, device=next(network.parameters()).device)
        length = network(blank).shape[1]
    mean, std = (tuple(map(float, how[key])) for key in ("mean", "std"))
    facts = ImageEmbedder(name, weights, side, mean, std, how["interpolation"], length)  # type: ignore[arg-type]
    return LoadedEmbedder(facts, network)


def find_image_embedder(name: str) -> ImageEmbedder:
    """Returns the embedder of a name, with the checksum of the weights that are here.

    Args:
        name: One of the names in `ACCEPTED`.
    """
    return load_image_embedder(name).facts
