"""The contract of a model: a module with a linear `head`, the same from the same seed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ofcl.models import ModelSize
from ofcl.models.head import grow_head
from ofcl.seeds import generator, private
from ofcl.testing.contract import (
    almost_equal,
    find_difference,
    require,
    save_and_read,
    untouched_generators,
)

SMALL = ModelSize((1, 8, 8), classes=3, width=2, hidden=5, mean=(0.3,), std=(0.25,))

Build = Callable[[ModelSize], nn.Module]


def check_model(build: Build, size: ModelSize = SMALL) -> None:
    """Checks that a function builds models that a run can learn with.

    A model has a linear `head` over the classes, which can grow. It computes finite logits, also
    for a single sample. Its first weights come from the seed, and nothing is drawn from the global
    generators. A model that loads another's saved state computes the same logits.

    Args:
        build: Builds the module, as in `ofcl.models.Model`.
        size: The sizes to build it with; by default for small images with one channel.

    Raises:
        ContractBroken: If the models do not keep one of these promises.
    """
    x = torch.randn(4, *size.shape, generator=generator(0, "model contract"))
    with untouched_generators("building a model"):
        model = _build(build, size, seed=0)
    with untouched_generators("a model"):
        _check_seed(build, size, model)
        _check_head(model, size)
        _check_forward(model, x, size.classes)
        _check_learning(model, x, size.classes)
        _check_saved(model, _build(build, size, seed=1), x)
        _check_growth(model, x, size.classes)


def _build(build: Build, size: ModelSize, seed: int) -> nn.Module:
    """Builds a model from a seed, without touching the global generators.

    Args:
        build: Builds the module.
        size: The sizes to build it with.
        seed: The seed of its first weights.
    """
    with private(seed, "model"):
        return build(size)


@torch.no_grad()
def _evaluate(model: nn.Module, x: Tensor) -> Tensor:
    """Computes the logits of samples in evaluation mode."""
    logits: Tensor = model.eval()(x)
    return logits


def _check_seed(build: Build, size: ModelSize, model: nn.Module) -> None:
    """Requires that the same seed builds the same model, and another seed another one.

    Args:
        build: Builds the module.
        size: The sizes to build it with.
        model: The model that was built from the seed 0.
    """
    again, other = (_build(build, size, seed).state_dict() for seed in (0, 1))
    different = find_difference(dict(model.state_dict()), dict(again))
    require(
        different is None,
        f"the same seed builds the same model; built again, it differs at {different}",
    )
    require(
        find_difference(dict(again), dict(other)) is not None,
        "another seed builds another model; it is the same one",
    )


def _check_head(model: nn.Module, size: ModelSize) -> None:
    """Requires a linear head with an output for each class."""
    head = getattr(model, "head", None)
    require(
        isinstance(head, nn.Linear) and head.bias is not None,
        f"a model has an nn.Linear with a bias as its `head`, over the classes; it has {head!r}",
    )
    assert isinstance(head, nn.Linear)
    require(
        head.out_features == size.classes,
        f"the head has an output for each of the {size.classes} classes; it has "
        f"{head.out_features}",
    )


def _check_forward(model: nn.Module, x: Tensor, classes: int) -> None:
    """Requires finite logits in evaluation mode, each of which depends on its own sample alone.

    Args:
        model: The model, which must not change.
        x: Samples (n, …).
        classes: The number of classes.
    """
    x_before, state_before = x.clone(), copy.deepcopy(model.state_dict())
    logits = _evaluate(model, x)
    require(
        tuple(logits.shape) == (len(x), classes),
        f"a model gives logits (n, classes): of {tuple(x.shape)} came {tuple(logits.shape)}, not "
        f"({len(x)}, {classes})",
    )
    require(bool(logits.isfinite().all()), "the logits of a new model are finite; these are not")
    alone = torch.cat([_evaluate(model, x[i : i + 1]) for i in range(len(x))])
    require(
        almost_equal(alone, logits),
        "in evaluation, a sample's logits do not depend on the others in the batch; one at a time "
        "came others",
    )
    require(torch.equal(x, x_before), "a model must not change the samples that it is given")
    require(
        find_difference(dict(state_before), dict(model.state_dict())) is None,
        "in evaluation, a model must not change its own state",
    )
    require(
        torch.equal(_evaluate(copy.deepcopy(model), x), logits),
        "a copy of a model, by which samples are scored, gives the same logits; it gave others",
    )


def _check_learning(model: nn.Module, x: Tensor, classes: int) -> None:
    """Requires finite gradients of the cross-entropy, also for the head.

    Args:
        model: The model.
        x: Samples (n, …).
        classes: The number of classes.
    """
    logits = model.train()(x)
    y = torch.arange(len(x)) % classes
    F.cross_entropy(logits, y).backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    require(
        {"head.weight", "head.bias"} <= gradients.keys(),
        f"the head gets a gradient from the loss; only these did: {sorted(gradients)}",
    )
    for name, gradient in gradients.items():
        require(bool(gradient.isfinite().all()), f"gradients are finite; that of '{name}' is not")
    model.zero_grad()


def _check_saved(model: nn.Module, other: nn.Module, x: Tensor) -> None:
    """Requires that another model computes the same logits after it has loaded the model's state.

    Args:
        model: The model.
        other: A model of the same sizes with other weights.
        x: Samples (n, …).
    """
    other.load_state_dict(save_and_read(dict(model.state_dict()), "a model"))
    require(
        torch.equal(_evaluate(other, x), _evaluate(model, x)),
        "a model comes back whole from its state_dict; another one that loaded it gives other "
        "logits",
    )


def _check_growth(model: nn.Module, x: Tensor, classes: int) -> None:
    """Requires that the logits of old classes stay the same when the head grows.

    Args:
        model: The model.
        x: Samples (n, …).
        classes: The number of classes before it grows.
    """
    before = _evaluate(model, x)
    grow_head(model, classes + 2, seed=0)
    after = _evaluate(model, x)
    require(
        tuple(after.shape) == (len(x), classes + 2),
        f"a head that has grown by two gives logits for {classes + 2} classes; they came as "
        f"{tuple(after.shape)}",
    )
    require(
        almost_equal(after[:, :classes], before),
        "new outputs leave the old ones as they were; the logits of old classes changed",
    )
