"""MFCL: the losses of the generator at the server, and the distillation at a client.

The generator makes images x of noise. With z the logits that the frozen global model, the teacher,
gives x over the q classes seen so far, and p̄ the mean over the images of softmax(z), it minimises

    label          CE(z / 1000, class)               every image is clearly of one class
  + balance        1 + Σ_c p̄_c ln p̄_c / ln q         all classes are made equally often
  + statistics     50 · mean over layers of KL       BatchNorm sees what it saw in training
  + smoothness     10⁻³ · ‖x − blurred x‖²           images have no high frequencies

(`generator_loss`). The client's loss is in `mfcl_client`; its third term, `distillation_loss`, is
here.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.methods.generative.batchnorm_inputs import watched_inputs

TEMPERATURE = 1000.0  # of the label term, as in MFCL's released code
BALANCE, STATISTICS, SMOOTHNESS = 1.0, 50.0, 1e-3  # weights of the other terms

Labels = Literal["teacher", "noise"]
"""How a made image gets its class.

teacher:  the class that the teacher sees in it.
noise:    the largest of the first numbers of its noise, one number for each class.
"""


def label_loss(logits: Tensor, labels: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Computes the label term: the cross-entropy of the teacher's predictions for made images.

    Args:
        logits: The teacher's logits (n, classes).
        labels: The class (n,) that each image shall have.
        temperature: Divides the logits.
    """
    return F.cross_entropy(logits / temperature, labels)


def balance_loss(logits: Tensor) -> Tensor:
    """Computes 1 + Σ_c p̄_c ln p̄_c / ln q, which is 0 when all q classes are made equally often.

    >>> round(balance_loss(torch.eye(4) * 100).item(), 4), balance_loss(torch.zeros(3, 1)).item()
    (0.0, 0.0)

    Args:
        logits: The teacher's logits (n, q) of made images; the result is 0 if q is 1.
    """
    classes = logits.shape[1]
    if classes < 2:
        return logits.sum() * 0
    mean = logits.softmax(1).mean(0).clamp_min(1e-12)
    return 1 + (mean * mean.log()).sum() / torch.tensor(float(classes)).log().to(mean)


def statistics_loss(
    mean: Tensor, variance: Tensor, running_mean: Tensor, running_variance: Tensor
) -> Tensor:
    """Computes how far a BatchNorm layer's input is from its inputs in training.

    It is the mean over channels of ln(σ/σ_r) − ½ (1 − (σ_r² + (μ_r − μ)²) / σ²).

    Args:
        mean: The mean μ of each channel of the input.
        variance: The variance σ² of each channel of the input.
        running_mean: BatchNorm's running mean μ_r.
        running_variance: BatchNorm's running variance σ_r².
    """
    ratio = (running_variance + (running_mean - mean) ** 2) / variance
    return (0.5 * (variance / running_variance).log() - 0.5 * (1 - ratio)).mean()


def smoothness_loss(images: Tensor) -> Tensor:
    """Computes the mean squared difference between images and the same images blurred.

    Args:
        images: The images (n, C, H, W); the blur is a 5 × 5 Gaussian.
    """
    offsets = torch.arange(5, device=images.device) - 2.0
    bell = torch.exp(-((offsets / 2) ** 2))
    kernel = torch.outer(bell, bell) / bell.sum() ** 2
    channels = images.shape[1]
    padded = F.pad(images, (2, 2, 2, 2), mode="reflect")
    smooth = F.conv2d(padded, kernel.expand(channels, 1, 5, 5), groups=channels)
    return F.mse_loss(images, smooth)


def generator_loss(
    teacher: nn.Module, images: Tensor, noise: Tensor, seen: Tensor, labels: Labels
) -> Tensor:
    """Computes the generator's loss: the weighted sum of its four terms (at the top of this file).

    Args:
        teacher: The frozen global model.
        images: Made images.
        noise: The noise from which the images were made.
        seen: The classes seen so far.
        labels: How the class of an image is chosen (`Labels`).
    """
    with watched_inputs(teacher) as inputs:
        logits = teacher(images)[:, seen]
    statistics = [statistics_loss(*of_layer) for of_layer in inputs]
    classes = logits.argmax(1) if labels == "teacher" else noise[:, : len(seen)].argmax(1)
    return (
        label_loss(logits, classes)
        + BALANCE * balance_loss(logits)
        + STATISTICS * (torch.stack(statistics).mean() if statistics else images.sum() * 0)
        + SMOOTHNESS * smoothness_loss(images)
    )


def distillation_loss(old_head: nn.Linear, old: Tensor, new: Tensor, before: Tensor) -> Tensor:
    """Computes the mean over samples of ‖W_o φ(x) − W_o φ_o(x)‖² / q.

    It is small if the features have changed little in the directions that the old head uses.

    Args:
        old_head: The teacher's head; W_o are its rows for the old classes.
        old: The q old classes.
        new: The features φ(x) by the model that learns (n, features).
        before: The features φ_o(x) by the teacher (n, features).
    """
    weight = old_head.weight[old]
    return ((new - before) @ weight.T).square().sum(1).mean() / len(old)
