"""Parts for ofcl in a package of their own; docs/parts.md explains each kind."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.memory.policy import Policy
from ofcl.methods import Method, policies
from ofcl.methods.parts import PolicyParts
from ofcl.models import ModelSize


def two_layers(size: ModelSize) -> nn.Module:
    """Builds a network of two hidden layers; its last layer becomes the head.

    Args:
        size: The shape of a sample, and the number of classes.
    """
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(size.shape), 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, size.classes),
    )


def smooth(logits: Tensor, y: Tensor) -> Tensor:
    """Computes the cross-entropy with smoothed labels.

    Args:
        logits: The logits (n, classes).
        y: The classes (n,).
    """
    return F.cross_entropy(logits, y, label_smoothing=0.05)


def surprise(logits: Tensor, y: Tensor) -> Tensor:
    """Scores samples by how unlikely their label is; a score with two parameters gets the labels.

    Args:
        logits: The logits of the perturbed copies (views, n, classes).
        y: The classes (n,).
    """
    return 1 - logits.softmax(-1).mean(0).gather(1, y[:, None])[:, 0]


def quietest(parts: PolicyParts) -> Policy:
    """Makes a policy that keeps, of each class, the samples with the smallest numbers.

    Args:
        parts: The client's random generator, its scorers, and the settings of memories.
    """
    return Policy(lambda x: x.flatten(1).square().mean(1).cpu())


SURPRISED = Method("class-balanced by surprise", policies.by_score("ofcl_example:surprise"))
"""A method whose memory keeps, of each class, the samples with the likeliest labels."""
