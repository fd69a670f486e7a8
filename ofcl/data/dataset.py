"""A dataset: samples and labels, train and test, and how a sample is made ready for a model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ofcl.compute.devices import constant
from ofcl.errors import OfclError

Kind = Literal["image", "vector"]

LOOKED_AT = 1000  # samples of each part, to tell data from others


@dataclass(frozen=True)
class Dataset:
    """Samples with labels; images as uint8 (n, channels, height, width), vectors as float.

    Labels are names; `y` holds their places in `labels`, the vocabulary. Images are normalised with
    `mean` and `std` of their channels, those of the train data unless given.
    """

    name: str
    kind: Kind
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    labels: tuple[str, ...]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    x_validation: Tensor | None = None  # None: a share of train is held for validation
    y_validation: Tensor | None = None
    notes: tuple[str, ...] = ()  # what a user of these data should know
    source: str = ""  # the name or path by which it can be loaded again

    def __post_init__(self) -> None:
        for part, x, y in (
            ("train", self.x_train, self.y_train),
            ("test", self.x_test, self.y_test),
        ):
            if len(x) != len(y):
                raise OfclError(
                    f"dataset '{self.name}': {len(x)} {part} samples but {len(y)} labels"
                )
            if len(y) and not 0 <= int(y.min()) <= int(y.max()) < len(self.labels):
                raise OfclError(
                    f"dataset '{self.name}': {part} labels from {int(y.min())} to {int(y.max())}, "
                    f"but there are {len(self.labels)} names"
                )
        if self.kind == "image" and not (self.mean and self.std) and self.x_train.dim() == 4:
            mean, std = channel_statistics(self.x_train)
            object.__setattr__(self, "mean", mean)
            object.__setattr__(self, "std", std)
        wanted = 4 if self.kind == "image" else 2
        if self.x_train.dim() != wanted:
            raise OfclError(
                f"dataset '{self.name}': {self.kind} samples need {wanted} dimensions, "
                f"got {tuple(self.x_train.shape)}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.x_train.shape[1:])

    def fingerprint(self) -> str:
        """Tells other data, or the same in another order or split, from these.

        Of the labels, and of samples from all over the train and the test part.
        """
        digest = hashlib.sha256()
        for x, y in ((self.x_train, self.y_train), (self.x_test, self.y_test)):
            few = min(len(x), LOOKED_AT)
            spread = torch.arange(few) * (len(x) - 1) // max(few - 1, 1)
            for tensor in (torch.tensor(x.shape), y, x[spread.to(x.device)]):
                plain = tensor.detach().cpu().contiguous().view(torch.uint8)
                digest.update(plain.numpy().tobytes())
        return digest.hexdigest()

    def to(self, device: torch.device) -> Dataset:
        """The same data with the samples on another device; labels stay, they are counted here."""
        samples = {name: v.to(device) for name, v in vars(self).items()
                   if name.startswith("x_") and isinstance(v, Tensor)}  # fmt: skip
        return replace(self, **samples)  # type: ignore[arg-type]

    def prepare(self, x: Tensor) -> Tensor:
        """Samples as a model takes them: images scaled to [0, 1] and normalised, vectors as is."""
        if self.kind == "vector":
            return x.float()
        mean, std = (constant(v, x.device).view(-1, 1, 1) for v in (self.mean, self.std))
        return (x.float() / 255 - mean) / std


def channel_statistics(x: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of uint8 images, on the scale [0, 1]."""
    scaled = x.double() / 255
    mean = scaled.mean(dim=(0, 2, 3))
    std = scaled.std(dim=(0, 2, 3)).clamp_min(1e-6)
    return tuple(mean.tolist()), tuple(std.tolist())
