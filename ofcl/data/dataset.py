"""A dataset: train and test samples with their classes, and how they become a model's input."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ofcl.compute.devices import constant, wide
from ofcl.data.sample_forms import ImageForm, SampleForm, VectorForm
from ofcl.errors import OfclError

Kind = Literal["image", "vector", "tokens"]
"""Images, vectors, or texts as the ids of their tokens."""

FINGERPRINT_SAMPLES = 1000  # of each part


@dataclass(frozen=True)
class Dataset:
    """Samples with labels: images as uint8 (n, channels, height, width), vectors as float (n, d).

    Texts may also be token ids, int32 (n, length).

    Args:
        name: The name of the dataset, for messages.
        kind: `image`, `vector` or `tokens`.
        x_train: The samples to learn from.
        y_train: The class of each train sample: the index of its label in `labels`.
        x_test: The samples to test on.
        y_test: The class of each test sample.
        labels: The label of each class.
        mean: The mean of each channel of images on the scale [0, 1], for normalisation; empty: it
            is measured from the train samples.
        std: The standard deviation of each channel, in the same way.
        x_validation: The samples to validate on; None: a share of the train samples is set aside.
        y_validation: The class of each validation sample.
        notes: Lines that a user of these data should read.
        source: The name or path from which the dataset can be loaded again.
        form: How samples like these are read; None: they were made in Python, as arrays.

    Raises:
        OfclError: Samples, classes and labels do not fit together.
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
    x_validation: Tensor | None = None
    y_validation: Tensor | None = None
    notes: tuple[str, ...] = ()
    source: str = ""
    form: SampleForm | None = None

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

    @property
    def sample_form(self) -> SampleForm:
        """The form of its samples; of arrays made in Python, what the arrays show."""
        if self.form is not None:
            return self.form
        if self.kind != "image":
            return VectorForm(self.shape[0])
        channels, height, width = self.shape
        return ImageForm((channels, height, width), self.mean, self.std)

    def fingerprint(self) -> str:
        """Computes a digest that tells this dataset from others.

        It differs for other data, and for the same data in another order or split. It is computed
        from all classes, and from samples spread evenly over the train and the test part.
        """
        digest = hashlib.sha256()
        for x, y in ((self.x_train, self.y_train), (self.x_test, self.y_test)):
            few = min(len(x), FINGERPRINT_SAMPLES)
            spread = torch.arange(few) * (len(x) - 1) // max(few - 1, 1)
            for tensor in (torch.tensor(x.shape), y, x[spread.to(x.device)]):
                plain = tensor.detach().cpu().contiguous().view(torch.uint8)
                digest.update(plain.numpy().tobytes())
        return digest.hexdigest()

    def to(self, device: torch.device) -> Dataset:
        """Copies the samples to a device. The classes stay on the CPU, where they are counted.

        Args:
            device: The device that learns.
        """
        samples = {name: v.to(device) for name, v in vars(self).items()
                   if name.startswith("x_") and isinstance(v, Tensor)}  # fmt: skip
        return replace(self, **samples)  # type: ignore[arg-type]

    def prepare(self, x: Tensor) -> Tensor:
        """Turns samples into a model's input: normalises images, leaves others as they are.

        Args:
            x: Samples of this dataset (n, …).
        """
        if self.kind != "image":
            return x.float() if self.kind == "vector" else x.int()
        mean, std = (constant(v, x.device).view(-1, 1, 1) for v in (self.mean, self.std))
        return (x.float() / 255 - mean) / std


def channel_statistics(x: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Measures the mean and standard deviation of each channel, on the scale [0, 1].

    Args:
        x: The images (n, channels, height, width), uint8.
    """
    scaled = wide(x) / 255
    mean = scaled.mean(dim=(0, 2, 3))
    std = scaled.std(dim=(0, 2, 3)).clamp_min(1e-6)
    return tuple(mean.tolist()), tuple(std.tolist())
