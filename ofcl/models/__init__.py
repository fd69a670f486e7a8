"""The models: ordinary PyTorch modules with a linear `head` over the classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ofcl.models.generators import ACGAN
from ofcl.models.mlp import MLP
from ofcl.models.resnet import SlimResNet18


@dataclass(frozen=True)
class ModelSize:
    """What a model is built from."""

    shape: tuple[int, ...]  # of one sample
    classes: int
    width: int = 20
    hidden: int = 512
    mean: tuple[float, ...] = ()  # that images are normalised with
    std: tuple[float, ...] = ()


@dataclass(frozen=True)
class Model:
    """A model by what it is for and how it is built."""

    summary: str
    build: Callable[[ModelSize], nn.Module]


ACGAN_NAME = "acgan"

MODELS: dict[str, Model] = {
    "slim-resnet18": Model(
        "ResNet-18 of a fraction of the channels, for images of side 8 and up",
        lambda size: SlimResNet18(size.shape[0], size.classes, size.width),
    ),
    ACGAN_NAME: Model(
        "FedCIL's generator and critic; the critic is the classifier",
        lambda size: ACGAN(
            size.shape,
            size.classes,
            mean=size.mean,
            std=size.std,
            channels=max(round(size.width * 16 / 20), 1),
        ),
    ),
    "mlp": Model(
        "one hidden layer, for vectors; flattens images",
        lambda size: MLP(math.prod(size.shape), size.hidden, size.classes),
    ),
}
"""Every model by name."""
