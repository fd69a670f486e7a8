"""The network for images of which there are few: four convolutions, then a head."""

from __future__ import annotations

from torch import Tensor, nn

from ofcl.models.norm import BatchNorm


class ConvNet(nn.Module):
    """A plain convolutional network, for images of side 8 and up.

    It learns from far fewer images than a ResNet, and is much faster.

    >>> import torch
    >>> ConvNet(3, 10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])

    Args:
        channels: The channels of the images.
        classes: The number of outputs of the head.
        width: The channels of the first convolution; each later one has twice as many as the one
            before.
    """

    def __init__(self, channels: int, classes: int, width: int = 20) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels_in = channels
        for factor, stride in ((1, 1), (2, 2), (4, 2), (8, 2)):
            convolution = nn.Conv2d(channels_in, factor * width, 3, stride, padding=1, bias=False)
            layers += [convolution, BatchNorm(factor * width), nn.ReLU()]
            channels_in = factor * width
        self.layers = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels_in, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the logits (n, classes) of images.

        Args:
            x: The images (n, channels, side, side).
        """
        logits: Tensor = self.head(self.features(x))
        return logits

    def features(self, x: Tensor) -> Tensor:
        """Computes the inputs (n, 8 · width) of the head for images.

        Args:
            x: The images (n, channels, side, side).
        """
        features: Tensor = self.pool(self.layers(x)).flatten(1)
        return features
