"""The server: averages the clients' models, and the result with the previous global model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from ofcl.compute import foreach
from ofcl.state import Tensors
from ofcl.update import Update

Aggregation = Callable[[Sequence[Update], Tensors | None], Tensors]
"""Updates, and the previous global model where there is one → an averaged model."""


def average(models: Sequence[Tensors], weights: Sequence[float]) -> Tensors:
    """The weighted mean of models.

    >>> average([{"w": torch.tensor(1.0)}, {"w": torch.tensor(5.0)}], [3, 1])
    {'w': tensor(2.)}
    """
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    names = list(models[0])
    mean = foreach.scaled(list(models[0].values()), shares[0])
    for model, share in zip(models[1:], shares[1:], strict=True):
        foreach.add_scaled(mean, [model[name] for name in names], share)
    return dict(zip(names, mean, strict=True))


def fedavg(updates: Sequence[Update], previous: Tensors | None = None) -> Tensors:
    """FedAvg: clients weigh by the samples of their current task (McMahan et al. 2017)."""
    return average([u.state for u in updates], [u.samples for u in updates])


def weighted_fedavg(
    updates: Sequence[Update],
    previous: Tensors | None = None,
    *,
    class_weights: Literal["class", "task"] = "class",
    nested: float = 0.0,
) -> Tensors:
    """Weighted FedAvg: one averaged model for each class of the round, then their plain mean.

    So a class that few clients have counts as much as any other. `nested` is the share of the
    previous global model in the model of every class that several clients have: the released code
    averages there a first time. Where a client does not tell its class counts, it is plain FedAvg.
    """
    if any(update.samples and not update.classes for update in updates):
        return fedavg(updates, previous)
    models = []
    for c in sorted({c for update in updates for c in update.classes}):
        having = [update for update in updates if c in update.classes]
        by_class = class_weights == "class"
        weights = [update.classes[c] if by_class else update.samples for update in having]
        model = average([update.state for update in having], weights)
        if nested and previous is not None and len(having) > 1:
            model = mix(model, previous, nested)
        models.append(model)
    return average(models, [1] * len(models))


def trimmed_mean(
    updates: Sequence[Update], previous: Tensors | None = None, *, trim: float = 0.2
) -> Tensors:
    """Of every number, the mean without the largest and the smallest (Yin et al. 2018).

    A share of `trim` of the clients, rounded up, goes at each end; all clients weigh the same.

    >>> models = [{"w": torch.tensor([v])} for v in (1.0, 3.0, 99.0)]
    >>> trimmed_mean([Update(k, model, 1, {}) for k, model in enumerate(models)])
    {'w': tensor([3.])}
    """
    n = len(updates)
    cut = min(math.ceil(round(trim * n, 6)), (n - 1) // 2)
    return _of_each(updates, lambda values: values.sort(0).values[cut : n - cut].mean(0))


def median(updates: Sequence[Update], previous: Tensors | None = None) -> Tensors:
    """Of every number, the median; all clients weigh the same."""
    return _of_each(updates, lambda values: values.quantile(0.5, dim=0))


def _of_each(updates: Sequence[Update], combine: Callable[[Tensor], Tensor]) -> Tensors:
    """Combines the clients' values (clients, …) of each tensor."""
    names = updates[0].state
    return {name: combine(torch.stack([u.state[name] for u in updates])) for name in names}


def mix(model: Tensors, previous: Tensors, share: float) -> Tensors:
    """A model with a share of the previous one."""
    names, values = list(model), list(model.values())
    mixed = foreach.between(values, [previous[name] for name in names], share)
    return dict(zip(names, mixed, strict=True))
