"""A network that settings can name, and the sizes that it is built with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ofcl.pretrained.tuning import Tuning


@dataclass(frozen=True)
class ModelSize:
    """The sizes that a model is built with.

    Args:
        shape: The shape of one sample.
        classes: The number of outputs of the head.
        width: The channels of the first stage in networks for images; slim ResNet-18 has 20.
        hidden: The units of the MLP's hidden layer.
        mean: The mean of each channel that images are normalised with.
        std: The standard deviation of each channel that images are normalised with.
        tuning: How a pretrained network learns; None: as its defaults say.
    """

    shape: tuple[int, ...]
    classes: int
    width: int = 20
    hidden: int = 512
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    tuning: Tuning | None = None


@dataclass(frozen=True)
class Model:
    """A model that settings can name.

    Args:
        summary: A description in a few words.
        build: Makes the module of a given size.
    """

    summary: str
    build: Callable[[ModelSize], nn.Module]
