"""The models: ordinary PyTorch modules with a linear `head` over the classes.

mlp          for vectors
resnet       for images; `norm` has its batch normalisation
convnet      for images of which there are few
generators   of the generative methods
model        a network that settings can name, and its sizes
head         outputs for new classes
adapted      any module that computes logits, with its last layer as the head
own_models   networks of a user's own: how they are built
backbone     pretrained networks, of which a part learns
prototypes   the nearest class mean, instead of a head

A new model is a file here and a line in `MODELS`. May import `compute`, `own_parts`,
`pretrained`, `state` and `seeds`.
"""

from __future__ import annotations

import math

from ofcl.models.backbone import pretrained_model
from ofcl.models.convnet import ConvNet
from ofcl.models.generators import ACGAN
from ofcl.models.mlp import MLP
from ofcl.models.model import Model, ModelSize
from ofcl.models.own_models import own_model
from ofcl.models.resnet import SlimResNet18
from ofcl.own_parts.lookup import find_part
from ofcl.pretrained.backbone_names import is_backbone

__all__ = ["ACGAN_NAME", "MODELS", "SMALLEST_SIDE", "Model", "ModelSize", "find_model"]

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
"""Every model of this package by name."""


def find_model(name: str) -> Model:
    """Finds a model: of this package, pretrained, of an installed package, by a path, handed over.

    Args:
        name: The name that the settings have.
    """
    if is_backbone(name):
        return pretrained_model(name)
    part = find_part("model", name, MODELS)
    return part if isinstance(part, Model) else own_model(name, part)
