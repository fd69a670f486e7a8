"""The nearest class mean of a client's memory, as the classifier that it is tested with."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from ofcl.memory.memory import Memory
from ofcl.models.prototypes import NearestMean, feature_sums, prototypes
from ofcl.state import Tensors

Classifier = Literal["head", "nearest-mean"]
"""How a model predicts when it is tested:

head:          by the logits of its head.
nearest-mean:  by the nearest class mean of remembered samples' features (`models/prototypes.py`).
"""


def memory_sums(model: nn.Module, memory: Memory | None) -> Tensors:
    """Adds up, class by class, the features that a model computes for the samples of a memory.

    Args:
        model: A model with `features` and a `head`.
        memory: The memory; None counts as an empty one.

    Returns:
        The sums and counts of `feature_sums`.
    """
    device = next(model.parameters()).device
    if memory is None or not len(memory):
        nothing = torch.empty(0, device=device)
        return feature_sums(model, nothing, nothing.long())
    return feature_sums(model, memory.x, memory.samples.y.to(device))


def as_tested(
    model: nn.Module, classifier: Classifier, memory: Memory | None, known: Tensors
) -> nn.Module:
    """Returns a model as it predicts when it is tested.

    Args:
        model: The model.
        classifier: How it predicts. With an empty memory and nothing known, it is by the head.
        memory: The client's memory.
        known: The model's prototypes, made from all clients' memories; {}: they are made from this
            client's memory.
    """
    if classifier == "head":
        return model
    means = known or prototypes([memory_sums(model, memory)])
    return NearestMean(model, means) if means else model
