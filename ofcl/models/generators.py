"""The networks of the generative methods: MFCL's generator, and FedCIL's generator and critic."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NOISE = 1000  # random numbers from which MFCL's generator makes an image
ACGAN_NOISE = 100  # the same for FedCIL's, which takes one more for each class
ACGAN_SIDE = 32  # side of the images that FedCIL's networks work on


class ImageGenerator(nn.Module):
    """MFCL's generator: makes normalised images from noise, without being given a class.

    Its last layer brings every channel to mean 0 and standard deviation 1, as in normalised images.

    >>> ImageGenerator((3, 32, 32))(torch.zeros(2, NOISE)).shape
    torch.Size([2, 3, 32, 32])

    Args:
        shape: The shape of an image: (colours, side, side).
        channels: The channels of its first layers.
    """

    def __init__(self, shape: tuple[int, ...], channels: int = 128) -> None:
        super().__init__()
        colours, side, _ = shape
        doublings = 3 if side > 32 else 2
        self._start = (channels, side // 2**doublings, side // 2**doublings)
        self.linear = nn.Linear(NOISE, channels * self._start[1] ** 2)
        self.norm = nn.BatchNorm2d(channels)
        layers: list[nn.Module] = []
        for n in range(doublings):
            out = channels // 2 if n == doublings - 1 else channels
            layers += [
                nn.Upsample(scale_factor=2),
                nn.Conv2d(channels, out, 3, padding=1),
                nn.BatchNorm2d(out, eps=0.8),
                nn.LeakyReLU(0.2),
            ]
        layers += [nn.Conv2d(channels // 2, colours, 3, padding=1), nn.Tanh()]
        self.layers = nn.Sequential(*layers)
        self.last = nn.BatchNorm2d(colours, affine=False)

    def forward(self, noise: Tensor) -> Tensor:
        """Makes normalised images (n, colours, side, side) from noise.

        Args:
            noise: Random numbers (n, 1000).
        """
        x = self.norm(self.linear(noise).view(-1, *self._start))
        images: Tensor = self.last(self.layers(x))
        return images


class ClassGenerator(nn.Module):
    """FedCIL's generator: makes images of given classes, with values from −1 to 1.

    Args:
        colours: The channels of the images.
        classes: The number of classes.
        channels: The channels of its first layer.
    """

    def __init__(self, colours: int, classes: int, channels: int = 384) -> None:
        super().__init__()
        self.classes = classes
        self.linear = nn.Linear(ACGAN_NOISE + classes, channels)
        layers: list[nn.Module] = []
        for n in range(3):
            before, after = channels >> n, channels >> n + 1
            stride, padding = (1, 0) if n == 0 else (2, 1)
            layers += [
                nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            ]
        layers += [nn.ConvTranspose2d(channels >> 3, colours, 4, 2, 1, bias=False), nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, noise: Tensor, y: Tensor) -> Tensor:
        """Makes images (n, colours, 32, 32) of given classes.

        Args:
            noise: Random numbers (n, 100 + classes). The first `classes` numbers of each image are
                replaced by its class as a one-hot vector.
            y: The class of each image (n,).
        """
        noise = torch.cat([F.one_hot(y, self.classes).to(noise), noise[:, self.classes :]], 1)
        images: Tensor = self.layers(self.linear(noise)[:, :, None, None])
        return images


class Dropout(nn.Module):
    """Dropout that draws from a generator of its own.

    The method `seed` starts the generator; otherwise it starts from 0.

    Args:
        share: The share of features that is set to zero in training.
    """

    def __init__(self, share: float = 0.5) -> None:
        super().__init__()
        self.share, self._seed = share, 0
        self._generator: torch.Generator | None = None

    def seed(self, seed: int) -> None:
        """Starts the draws anew from a seed.

        Args:
            seed: The seed.
        """
        self._seed, self._generator = seed, None

    def forward(self, x: Tensor) -> Tensor:
        """Sets a random share of the features to zero in training, and scales the others up.

        Args:
            x: The features, of any shape.

        Returns:
            Features of the same shape; outside of training, `x` itself.
        """
        if not self.training:
            return x
        if self._generator is None:
            self._generator = torch.Generator(x.device).manual_seed(self._seed)
        kept = torch.empty_like(x).bernoulli_(1 - self.share, generator=self._generator)
        return x * kept.div_(1 - self.share)


class Critic(nn.Module):
    """FedCIL's critic without its heads: computes the features that both heads judge an image by.

    Args:
        colours: The channels of the images.
        channels: The channels of its first layer.
    """

    def __init__(self, colours: int, channels: int = 16) -> None:
        super().__init__()
        self.dropout = Dropout()
        layers: list[nn.Module] = []
        for n in range(6):
            before = colours if n == 0 else channels << n - 1
            stride = 2 if n % 2 == 0 else 1
            layers.append(nn.Conv2d(before, channels << n, 3, stride, 1, bias=False))
            if n > 0:
                layers.append(nn.BatchNorm2d(channels << n))
            layers += [nn.LeakyReLU(0.2), self.dropout]
        self.layers = nn.Sequential(*layers)
        self.features = (channels << 5) * 4 * 4

    def forward(self, x: Tensor) -> Tensor:
        """Computes the features of images, as vectors (n, `features`).

        Args:
            x: The images (n, colours, 32, 32).
        """
        features: Tensor = self.layers(x).flatten(1)
        return features


class ACGAN(nn.Module):
    """FedCIL's whole model: a generator, and a critic with two heads.

    The head `real` tells real images from generated ones; `head` is the classifier. Images are
    normalised. Images smaller than 32 × 32 are padded with black for the critic; generated images
    are cut to the same size and normalised.

    >>> gan = ACGAN((1, 28, 28), 10, mean=(0.5,), std=(0.5,), channels=2)
    >>> gan(torch.zeros(3, 1, 28, 28)).shape, gan.make(torch.zeros(3, 110), torch.arange(3)).shape
    (torch.Size([3, 10]), torch.Size([3, 1, 28, 28]))

    Args:
        shape: The shape of an image: (colours, side, side).
        classes: The number of classes.
        mean: The mean of each channel that images are normalised with.
        std: The standard deviation of each channel that images are normalised with.
        channels: The channels of the critic's first layer; the generator's first layer has 24 times
            as many.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        channels: int = 16,
    ) -> None:
        super().__init__()
        self._side, self._mean, self._std = shape[1], mean, std
        self.generator = ClassGenerator(shape[0], classes, channels * 24)
        self.critic = Critic(shape[0], channels)
        self.real = nn.Linear(self.critic.features, 1)
        self.head = nn.Linear(self.critic.features, classes)
        self.apply(_start_weights)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the logits (n, classes) of images.

        Args:
            x: Normalised images (n, colours, side, side).
        """
        logits: Tensor = self.head(self.features(x))
        return logits

    def features(self, x: Tensor) -> Tensor:
        """Computes the inputs of both heads, (n, features), for images.

        Args:
            x: Normalised images (n, colours, side, side).
        """
        features: Tensor = self.critic(self._padded(x))
        return features

    def make(self, noise: Tensor, y: Tensor, generator: ClassGenerator | None = None) -> Tensor:
        """Makes normalised images (n, colours, side, side) of given classes.

        Args:
            noise: Random numbers (n, 100 + classes).
            y: The class of each image (n,).
            generator: Another generator to use; None: the model's own.
        """
        images: Tensor = (generator or self.generator)(noise, y)
        before = (ACGAN_SIDE - self._side) // 2
        cut = slice(before, before + self._side)
        scaled = images[:, :, cut, cut] / 2 + 0.5
        return (scaled - self._colour(self._mean, images)) / self._colour(self._std, images)

    def _padded(self, x: Tensor) -> Tensor:
        """Pads images (n, colours, side, side) with black to 32 × 32."""
        before = (ACGAN_SIDE - self._side) // 2
        after = ACGAN_SIDE - self._side - before
        if not before and not after:
            return x
        black = -self._colour(self._mean, x) / self._colour(self._std, x)
        return F.pad(x - black, (before, after, before, after)) + black

    @staticmethod
    def _colour(values: tuple[float, ...], like: Tensor) -> Tensor:
        """Makes a tensor (colours, 1, 1) of one value for each colour, on the device of `like`."""
        return torch.tensor(values, device=like.device).view(-1, 1, 1)


def _start_weights(module: nn.Module) -> None:
    """Draws the first weights of a convolution or BatchNorm: normal, with deviation 0.02."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d) and module.weight is not None:
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)
