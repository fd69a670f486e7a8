"""From a description and tensors to the network: its names and shapes must be the expected ones."""

from __future__ import annotations

import torch
from torch import nn

from ofcl.bundle.description import Description
from ofcl.errors import OfclError
from ofcl.models import ModelSize, find_model
from ofcl.models.backbone import check_at_hand
from ofcl.models.head import WEIGHT
from ofcl.models.prototypes import COUNTS, PROTOTYPES, NearestMean
from ofcl.pretrained.backbone_names import is_backbone
from ofcl.pretrained.tuning import Tuning
from ofcl.seeds import private
from ofcl.state import Tensors
from ofcl.update import frozen, travelling


def build_network(description: Description, tensors: Tensors) -> nn.Module:
    """Builds the network that a description describes, with its weights, in evaluation mode.

    It is built without memory first. So a description that asks for a huge network is refused
    before anything is allocated: the weights must have the same sizes. The pretrained part of a
    network is not in the bundle: it must be at hand.

    Args:
        description: The description of the model.
        tensors: The weights by name; others among them are ignored.

    Raises:
        OfclError: If the network is unknown, or the weights are not those of such a network.
    """
    name = description.network.name
    find_model(name)
    for key, plan in _planned(description).items():
        found = tensors.get(key)
        if found is None:
            raise OfclError(f"its weights lack '{key}', which a network '{name}' has")
        if found.shape != plan.shape or found.dtype != plan.dtype:
            raise OfclError(
                f"its weight '{key}' is {found.dtype} {tuple(found.shape)}; a network '{name}' of "
                f"these sizes has {plan.dtype} {tuple(plan.shape)}"
            )
        if not found.isfinite().all():
            raise OfclError(f"its weight '{key}' has values that are no numbers")
    with private(0, "network"):  # the weights that it begins with are replaced
        module = _build(description)
    own = _tensors(module)
    with torch.no_grad():
        for key, value in own.items():
            value.copy_(tensors[key])
    # As in a run: images are faster with their channels last.
    module.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    if description.classifier == "head":
        return module
    return NearestMean(module, _prototypes(description, tensors, own[WEIGHT].shape[1]))


def _planned(description: Description) -> Tensors:
    """Returns tensors of the names and shapes that the weights must have.

    They have no memory, except those of a pretrained network: its library decides their sizes, and
    its weights are here.

    Args:
        description: The description of the model.
    """
    name, pretrained = description.network.name, description.network.pretrained
    if is_backbone(name) != (pretrained is not None):
        raise OfclError(f"its model.json names the network '{name}' without its pretrained weights")
    if pretrained is not None:
        check_at_hand(name, pretrained.checksum)
        return _tensors(_build(description))
    try:
        with torch.device("meta"):
            return _tensors(_build(description))
    except (RuntimeError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise OfclError(f"a network '{name}' of these sizes cannot be built ({error})") from None


def _prototypes(description: Description, tensors: Tensors, features: int) -> Tensors:
    """Finds the prototypes among the weights, and checks them.

    Args:
        description: The description of the model.
        tensors: The weights by name.
        features: The number of inputs of the network's head.
    """
    means, counts = tensors.get(PROTOTYPES), tensors.get(COUNTS)
    if means is None or counts is None:
        raise OfclError(f"its weights lack '{PROTOTYPES}' or '{COUNTS}', by which it classifies")
    outputs = description.network.outputs
    if means.shape != (outputs, features) or means.dtype != torch.float:
        raise OfclError(
            f"its weight '{PROTOTYPES}' is {means.dtype} {tuple(means.shape)}; a network of these "
            f"sizes has {torch.float} {(outputs, features)}"
        )
    known = counts.shape == (outputs,) and counts.dtype == torch.long and bool((counts >= 0).all())
    if not known or not counts[: len(description.labels)].any() or not means.isfinite().all():
        raise OfclError(f"its weights '{PROTOTYPES}' or '{COUNTS}' have values that cannot be")
    return {PROTOTYPES: means, COUNTS: counts}


def _tensors(module: nn.Module) -> Tensors:
    """Returns all tensors of a network: those that have learned, and those that were frozen."""
    return travelling(module, statistics=True) | frozen(module)


def _build(description: Description) -> nn.Module:
    """Builds the network with weights of its own."""
    sizes, samples = description.network, description.samples
    mean, std = (tuple(getattr(samples, name, ())) for name in ("mean", "std"))
    tuning = None
    if (known := sizes.pretrained) is not None:
        tuning = Tuning(known.tune, known.rank, known.side, expected=known.checksum)
    size = ModelSize(
        samples.input_shape, sizes.outputs, sizes.width, sizes.hidden, mean, std, tuning
    )
    return find_model(sizes.name).build(size)
