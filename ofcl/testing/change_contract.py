"""The contracts of random changes: augmentations (`Change`), and perturbations for scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ofcl.seeds import generator
from ofcl.testing.contract import almost_equal, require, untouched_generators
from ofcl.uncertainty.change import Change, Perturbation

IMAGE = (1, 8, 8)
SAMPLES = 4


def check_change(change: Change, shape: Sequence[int] = IMAGE) -> None:
    """Checks a random change of samples, such as a training augmentation.

    Numbers are drawn on the CPU from the given generator alone, and drawing for several
    mini-batches at once gives the same as one after the other. Applying them is a function of
    samples and numbers, in which a sample's outcome depends on its own numbers alone.

    Args:
        change: The change.
        shape: The shape of a sample that it can change; by default an image with one channel.

    Raises:
        ContractBroken: If it does not keep one of these promises.
    """
    for n in (SAMPLES, 1):
        x = _make_samples(n, shape)
        changed = _check_both_steps(change, x)
        require(
            changed.shape == x.shape,
            f"a change makes as many samples of the same shape: of {tuple(x.shape)} came "
            f"{tuple(changed.shape)}",
        )


def check_perturbation(perturbation: Perturbation, shape: Sequence[int] = IMAGE) -> None:
    """Checks a perturbation: a change that makes several copies of each sample.

    It keeps the promises of `check_change`. The number of copies of each sample does not depend on
    the size of the mini-batch.

    Args:
        perturbation: The perturbation.
        shape: The shape of a sample that it can change; by default an image with one channel.

    Raises:
        ContractBroken: If it does not keep one of these promises.
    """
    views = set()
    for n in (SAMPLES, 1):
        x = _make_samples(n, shape)
        copies = _check_both_steps(perturbation, x)
        require(
            copies.dim() == x.dim() + 1 and copies.shape[1:] == x.shape and len(copies) > 0,
            f"a perturbation makes copies (views, n, …) of each sample: of {tuple(x.shape)} came "
            f"{tuple(copies.shape)}",
        )
        views.add(len(copies))
    require(len(views) == 1, f"there are as many copies of one sample as of many; {views} came")


def _make_samples(n: int, shape: Sequence[int]) -> Tensor:
    """Draws n random samples of a shape."""
    return torch.randn(n, *shape, generator=generator(0, "change contract"))


def _check_both_steps(change: Change, x: Tensor) -> Tensor:
    """Checks `draw` and `apply` of a change on samples x (n, …); returns the changed samples."""
    with untouched_generators("a change"):
        draws = _check_draws(change, x.shape)
        return _check_apply(change, x, draws)


def _check_draws(change: Change, shape: torch.Size) -> Tensor:
    """Checks the promises of `draw` and `draw_many`.

    Args:
        change: The change to check.
        shape: The shape of a mini-batch (n, …).

    Returns:
        The numbers for a first mini-batch.
    """
    one_by_one, again, at_once = (generator(0, "draws of a change") for _ in range(3))
    draws = [change.draw(shape, one_by_one) for _ in range(3)]
    first, n = draws[0], shape[0]
    require(
        first.device.type == "cpu",
        f"numbers are drawn on the CPU, so that every device gets the same; they are on "
        f"{first.device}",
    )
    require(
        first.dim() >= 2 and first.shape[1] == n,
        f"dimension 1 of the drawn numbers is that of the {n} samples; they came as "
        f"{tuple(first.shape)}",
    )
    require(
        torch.equal(change.draw(shape, again), first),
        "the drawn numbers depend on the generator alone; the same state gave different ones",
    )
    many = change.draw_many(shape, at_once, 3)
    require(
        many.shape == (3, *first.shape) and torch.equal(many, torch.stack(draws)),
        "draw_many gives what draw gives one after the other; it gave other numbers, of the shape "
        f"{tuple(many.shape)}",
    )
    require(
        torch.equal(at_once.get_state(), one_by_one.get_state()),
        "draw_many leaves the generator where draw, one after the other, leaves it; it did not",
    )
    return first


def _check_apply(change: Change, x: Tensor, draws: Tensor) -> Tensor:
    """Checks the promises of `apply`; returns the changed samples.

    Args:
        change: The change to check.
        x: The samples (n, …).
        draws: The numbers that `draw` returned for them.
    """
    x_before, draws_before = x.clone(), draws.clone()
    changed = change.apply(x, draws)
    require(
        torch.equal(x, x_before) and torch.equal(draws, draws_before),
        "apply must not change the samples or the drawn numbers that it is given",
    )
    require(
        changed.dtype == x.dtype and bool(changed.isfinite().all()),
        f"changed samples are finite and of the samples' type {x.dtype}; of type {changed.dtype} "
        "came some, or some that are not finite",
    )
    require(
        torch.equal(change.apply(x, draws), changed),
        "apply is a function of samples and drawn numbers alone; called twice, it gave two results",
    )
    one_by_one = [change.apply(x[i : i + 1], draws[:, i : i + 1]) for i in range(len(x))]
    require(
        almost_equal(torch.cat(one_by_one, changed.dim() - x.dim()), changed),
        "a sample is changed by its own numbers alone; one at a time, samples came out otherwise",
    )
    return changed
