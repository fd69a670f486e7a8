"""The models: ordinary PyTorch modules with a linear `head` over the classes.

mlp          for vectors
resnet       for images; `norm` has its batch normalisation
convnet      for images of which there are few
generators   of the generative methods
head         outputs for new classes
prototypes   the nearest class mean, instead of a head

A new model is a file here and a line in `MODELS`. May import `compute`, `state` and `seeds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from ofcl.models.convnet import ConvNet
from ofcl.models.generators import ACGAN
from ofcl.models.mlp import MLP
from ofcl.models.resnet import SlimResNet18


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
    """

    shape: tuple[int, ...]
    classes: int
    width: int = 20
    hidden: int = 512
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


@dataclass(frozen=True)
class Model:
    """A model that settings can name.

    Args:
        summary: A description in a few words.
        build: Makes the module of a given size.
    """

    summary: str
    build: Callable[[ModelSize], nn.Module]


ACGAN_NAME = "acgan"
SMALLEST_SIDE = 8  # of an image that a network of convolutions takes

MODELS: dict[str, Model] = {
    "slim-resnet18": Model(
        "ResNet-18 of a fraction of the channels, for images of side 8 and up",
        lambda size: SlimResNet18(size.shape[0], size.classes, size.width),
    ),
    "convnet": Model(
        "four convolutions, for few images of side 8 and up",
        lambda size: ConvNet(size.shape[0], size.classes, size.width),
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
