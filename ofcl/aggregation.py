"""Aggregation: makes one model of the clients' models, by an average or a robust one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from ofcl.compute import foreach
from ofcl.compute.devices import wide
from ofcl.state import Tensors
from ofcl.update import Update

Aggregation = Callable[[Sequence[Update], Tensors | None], Tensors]
"""Makes one model of the clients' updates and the previous global model (None if there is none)."""


def average(models: Sequence[Tensors], weights: Sequence[float]) -> Tensors:
    """Computes the weighted mean of models.

    >>> average([{"w": torch.tensor(1.0)}, {"w": torch.tensor(5.0)}], [3, 1])
    {'w': tensor(2.)}

    Args:
        models: The named tensors of each model; all have the same names.
        weights: The weight of each model; they need not add up to one.
    """
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    names = list(models[0])
    mean = foreach.scaled(list(models[0].values()), shares[0])
    for model, share in zip(models[1:], shares[1:], strict=True):
        foreach.add_scaled(mean, [model[name] for name in names], share)
    return dict(zip(names, mean, strict=True))


def fedavg(updates: Sequence[Update], previous: Tensors | None = None) -> Tensors:
    """Averages by FedAvg (McMahan et al. 2017): clients weigh by the samples of their current task.

    Args:
        updates: The updates of a round's clients.
        previous: Not used; every `Aggregation` takes it.
    """
    models = [update.state for update in updates]
    return average(models, [update.samples for update in updates])


def weighted_fedavg(
    updates: Sequence[Update],
    previous: Tensors | None = None,
    *,
    class_weights: Literal["class", "task"] = "class",
    nested: float = 0.0,
) -> Tensors:
    """Averages by the paper's weighted FedAvg: one model for each class, then their plain mean.

    So a class that few clients have counts as much as any other. If a client has not sent its
    class counts, this is plain FedAvg.

    Args:
        updates: The updates of a round's clients.
        previous: The previous global model; None if there is none.
        class_weights: How clients weigh in the model of a class. `class`: by their samples of that
            class; `task`: by all samples of their current task.
        nested: The share of the previous global model that is mixed into the model of each class
            that several clients have. The paper's released code does this, besides mixing it into
            the final average; 0 leaves it out.
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
    """Averages every number of the model over the clients, without its largest and smallest values.

    After Yin et al. 2018. All clients weigh the same.

    >>> models = [{"w": torch.tensor([v])} for v in (1.0, 3.0, 99.0)]
    >>> trimmed_mean([Update(k, model, 1, {}) for k, model in enumerate(models)])
    {'w': tensor([3.])}

    Args:
        updates: The updates of a round's clients.
        previous: Not used; every `Aggregation` takes it.
        trim: The share of clients that is left out at each end; their number is rounded up.
    """
    n = len(updates)
    cut = min(math.ceil(round(trim * n, 6)), (n - 1) // 2)
    return _combine_each(updates, lambda values: values.sort(0).values[cut : n - cut].mean(0))


def median(updates: Sequence[Update], previous: Tensors | None = None) -> Tensors:
    """Takes, for every number of the model, the median over the clients; all weigh the same.

    Args:
        updates: The updates of a round's clients.
        previous: Not used; every `Aggregation` takes it.
    """
    return _combine_each(updates, lambda values: values.quantile(0.5, dim=0))


def krum(updates: Sequence[Update], previous: Tensors | None = None, *, bad: int = 1) -> Tensors:
    """Takes the model of one client: the one that is nearest to most others.

    After Blanchard et al. 2017. A client's score is the sum of the squared distances to its
    n − bad − 2 nearest other clients (one at least); the smallest score wins, and of equal ones the
    first. All clients weigh the same. It holds if n is at least 2 · bad + 3.

    >>> models = [{"w": torch.tensor([v])} for v in (1.0, 3.0, 4.0, 4.5, 99.0)]
    >>> krum([Update(k, model, 1, {}) for k, model in enumerate(models)])
    {'w': tensor([4.])}

    Args:
        updates: The updates of a round's clients.
        previous: Not used; every `Aggregation` takes it.
        bad: How many clients may be bad.
    """
    flat = _flat(updates)
    if len(flat) == 1:
        return dict(updates[0].state)
    squares = _distances(flat, flat).square()
    squares.fill_diagonal_(math.inf)
    near = max(1, len(flat) - bad - 2)
    scores = squares.sort(dim=1).values[:, :near].sum(1)
    return dict(updates[int(scores.argmin())].state)


def geometric_median(
    updates: Sequence[Update], previous: Tensors | None = None, *, steps: int = 100
) -> Tensors:
    """Finds the model with the smallest sum of distances to the clients' models.

    By the algorithm of Weiszfeld (1937): a mean, weighted by the inverse distances, again and
    again. All clients weigh the same, so that the number of samples that a client names changes
    nothing. It holds as long as fewer than half of the clients are bad (Pillutla et al. 2022).

    >>> models = [{"w": torch.tensor([v])} for v in (1.0, 3.0, 99.0)]
    >>> geometric_median([Update(k, model, 1, {}) for k, model in enumerate(models)])
    {'w': tensor([3.])}

    Args:
        updates: The updates of a round's clients.
        previous: Not used; every `Aggregation` takes it.
        steps: The most steps of the algorithm.
    """
    flat = _flat(updates)
    centre = flat.quantile(0.5, dim=0)  # one client may be so far away that a mean is useless
    for _ in range(steps):
        distances = _distances(flat, centre[None])[:, 0]
        # A model at the centre would weigh infinitely.
        weights = 1 / distances.clamp(min=1e-7 * float(distances.median()) + 1e-12)
        moved = (weights / weights.sum()) @ flat
        step, centre = float((moved - centre).norm()), moved
        if step <= 1e-7 * (1 + float(centre.norm())):
            break
    names, start, model = updates[0].state, 0, {}
    for name, value in names.items():
        model[name] = centre[start : start + value.numel()].reshape(value.shape).to(value)
        start += value.numel()
    return model


def _flat(updates: Sequence[Update]) -> Tensor:
    """Puts all numbers of each update into a row (clients, numbers)."""
    names = updates[0].state
    return torch.stack(
        [torch.cat([wide(u.state[name]).flatten() for name in names]) for u in updates]
    )


def _distances(rows: Tensor, others: Tensor) -> Tensor:
    """Computes the Euclidean distances of rows to others (rows, others), row by row."""
    return torch.stack([(others - row).norm(dim=1) for row in rows])


def _combine_each(updates: Sequence[Update], combine: Callable[[Tensor], Tensor]) -> Tensors:
    """Combines each tensor of the model over the clients.

    Args:
        updates: The updates of a round's clients.
        combine: Takes the clients' values of one tensor, (clients, …), and gives the combined (…).
    """
    names = updates[0].state
    return {name: combine(torch.stack([u.state[name] for u in updates])) for name in names}


def mix(model: Tensors, previous: Tensors, share: float) -> Tensors:
    """Mixes a model with the previous one: (1 − share) · model + share · previous.

    Args:
        model: The new model.
        previous: The previous model; it may have more tensors than `model`.
        share: The share of the previous model, from 0 to 1.
    """
    names, values = list(model), list(model.values())
    mixed = foreach.between(values, [previous[name] for name in names], share)
    return dict(zip(names, mixed, strict=True))
