"""TARGET (Zhang et al. 2023): the losses of synthetic images, of the student and of a client.

The server makes images that the frozen global model, the teacher, takes for given classes. With t
and s the logits of teacher and student over the classes seen, an image of class c has

    label        ½ · CE(t, c)
  + statistics   10 · Σ over BatchNorm layers of ‖σ_r² − σ²‖ + ‖μ_r − μ‖
  − adversary    KL(softmax t ‖ softmax s), where student and teacher see the same class

(`image_loss`). The student, at first a new network, learns from the images to predict as the
teacher: T² · KL at a temperature of 20 (`student_loss`). So later images are those that a student
of the earlier ones does not know yet. A client's distillation is `distillation_loss`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ofcl.methods.generative.batchnorm_inputs import LayerInput

LABEL, STATISTICS, ADVERSARY = 0.5, 10.0, 1.0  # weights of the terms, as in the released code
STUDENT_TEMPERATURE, CLIENT_TEMPERATURE = 20.0, 2.0
MOMENTUM = 0.9  # of the statistics of earlier images

Statistics = list[tuple[Tensor, Tensor]]
"""For each BatchNorm layer, a mean and a variance of each channel."""


def statistics_distance(inputs: Sequence[LayerInput], earlier: Statistics) -> Tensor:
    """Computes how far BatchNorm's inputs are from those in training, summed over the layers.

    The statistics of the images count together with those of earlier ones, so that single images
    need not have all that the training samples had together.

    Args:
        inputs: The input of each layer.
        earlier: The statistics of earlier images (`averaged`); []: there were none.
    """
    distances = []
    for place, (mean, variance, running_mean, running_variance) in enumerate(inputs):
        if earlier:
            past_mean, past_variance = earlier[place]
            mean = (1 - MOMENTUM) * mean + MOMENTUM * past_mean
            variance = (1 - MOMENTUM) * variance + MOMENTUM * past_variance
        distances.append((running_variance - variance).norm() + (running_mean - mean).norm())
    return torch.stack(distances).sum()


def averaged(inputs: Sequence[LayerInput], earlier: Statistics) -> Statistics:
    """Adds the statistics of images to those of earlier ones.

    Args:
        inputs: The input of each layer.
        earlier: The statistics of earlier images; []: there were none.
    """
    now = [(each.mean.detach(), each.variance.detach()) for each in inputs]
    if not earlier:
        return now
    return [
        (MOMENTUM * past[0] + (1 - MOMENTUM) * mean, MOMENTUM * past[1] + (1 - MOMENTUM) * variance)
        for past, (mean, variance) in zip(earlier, now, strict=True)
    ]


def adversary_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Computes −KL(teacher ‖ student), counted where both see the same class; mean over images.

    Args:
        student: The student's logits (n, classes).
        teacher: The teacher's logits (n, classes).
    """
    agree = (student.argmax(1) == teacher.argmax(1)).to(student)
    return -(_divergence(student, teacher) * agree).mean()


def image_loss(
    teacher: Tensor,
    labels: Tensor,
    inputs: Sequence[LayerInput],
    earlier: Statistics,
    student: Tensor | None,
) -> Tensor:
    """Computes the loss of synthetic images (at the top of this file).

    Args:
        teacher: The teacher's logits over the classes seen (n, classes).
        labels: The class that each image shall have (n,), as a place among the classes seen.
        inputs: The inputs of the teacher's BatchNorm layers; [] if it has none.
        earlier: The statistics of earlier images.
        student: The student's logits (n, classes); None: it has learned nothing yet.
    """
    loss = LABEL * F.cross_entropy(teacher, labels)
    if inputs:
        loss = loss + STATISTICS * statistics_distance(inputs, earlier)
    if student is not None:
        loss = loss + ADVERSARY * adversary_loss(student, teacher)
    return loss


def student_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Computes T² · KL(teacher ‖ student) at a temperature T of 20, as a mean over images.

    Args:
        student: The student's logits (n, classes).
        teacher: The teacher's logits (n, classes).
    """
    high = STUDENT_TEMPERATURE
    return high**2 * _divergence(student / high, teacher / high).mean()


def distillation_loss(logits: Tensor, taught: Tensor) -> Tensor:
    """Computes a client's distillation: the cross-entropy of softened predictions, at T = 2.

    Args:
        logits: The client's logits of synthetic images, over the old classes (n, old).
        taught: The teacher's logits of the same, over the old classes (n, old).
    """
    soft = (taught / CLIENT_TEMPERATURE).softmax(1)
    return -(soft * (logits / CLIENT_TEMPERATURE).log_softmax(1)).sum(1).mean()


def _divergence(logits: Tensor, target: Tensor) -> Tensor:
    """Computes KL(softmax target ‖ softmax logits) of each image (n,)."""
    p, p_hat = target.log_softmax(1), logits.log_softmax(1)
    return (p.exp() * (p - p_hat)).sum(1)
