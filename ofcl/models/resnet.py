"""The network for images: ResNet-18 with a fraction of its channels (Lopez-Paz & Ranzato 2017)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.models.norm import BatchNorm


class PointConvolution(nn.Conv2d):
    """A 1 × 1 convolution without a bias: its output is a product of each pixel that it keeps."""

    def forward(self, x: Tensor) -> Tensor:
        """Computes feature maps from others.

        Args:
            x: The feature maps (n, channels_in, height, width).
        """
        if x.is_cuda:
            return super().forward(x)
        # A strided 1 × 1 convolution of few channels that are last in memory corrupts memory on a
        # CPU (oneDNN issue 6035). Leaving pixels out first gives the same.
        down, across = self.stride
        return F.conv2d(x[:, :, ::down, ::across], self.weight)


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions and a shortcut around them.

    Args:
        channels_in: The channels of the input.
        channels: The channels of the output.
        stride: The stride of the first convolution; 2 halves height and width.
    """

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = BatchNorm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = BatchNorm(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                PointConvolution(channels_in, channels, 1, stride, bias=False), BatchNorm(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Computes the block's feature maps (n, channels, …).

        Args:
            x: The feature maps before the block (n, channels_in, …).
        """
        out = self.bn1(self.conv1(x)).relu()
        out = self.bn2(self.conv2(out))
        added: Tensor = out + self.shortcut(x)
        return added.relu()


class SlimResNet18(nn.Module):
    """A slim ResNet-18: four stages of two blocks, for images of side 8 and up.

    >>> import torch
    >>> SlimResNet18(3, 10)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    >>> sum(p.numel() for p in SlimResNet18(3, 10).parameters())
    1094750

    Args:
        channels: The channels of the images.
        classes: The number of outputs of the head.
        width: The channels of the first stage; each stage has twice as many as the one before.
    """

    def __init__(self, channels: int, classes: int, width: int = 20) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), BatchNorm(width), nn.ReLU()
        )
        blocks, channels_in = [], width
        for stage in range(4):
            for stride in (1 if stage == 0 else 2, 1):
                blocks.append(BasicBlock(channels_in, width * 2**stage, stride))
                channels_in = width * 2**stage
        self.blocks = nn.Sequential(*blocks)
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
        features: Tensor = self.pool(self.blocks(self.stem(x))).flatten(1)
        return features
