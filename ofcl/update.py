"""A client's update: tensors of its model and a few counts. Nothing else leaves a client."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from ofcl.pretrained.referred import referred
from ofcl.state import COMPANION, Tensors, nbytes


@dataclass(frozen=True)
class Update:
    """The message of a client to the server at a communication point.

    Args:
        client: The client's number.
        state: The tensors of its model that are sent, by name.
        samples: How many samples of its current task the client has learned.
        classes: How many of these samples are of each class; empty if the aggregation does not
            need that.
        extras: Tensors that a generative method sends besides the model; or sums of features, in a
            survey (`Client.survey`), which has no tensors of the model.
        sent: The bytes that clients have sent for it, if it is the mean of several clients' updates
            (`secure_sum`); 0: it is a single client's, and its size counts. It never travels.
        coded: The same tensors in fewer bytes, as they travel (`compression`); empty: the tensors
            travel as they are.
    """

    client: int
    state: Tensors
    samples: int
    classes: dict[int, int]
    extras: Tensors = field(default_factory=dict)
    sent: int = 0
    coded: Tensors = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The size of the message in bytes: its tensors, and eight bytes for every count."""
        if self.sent:
            return self.sent
        return (
            nbytes(self.coded or self.state) + nbytes(self.extras) + 8 * (1 + 2 * len(self.classes))
        )


def travelling(model: nn.Module, statistics: bool) -> Tensors:
    """Returns the tensors of a model that clients and server send to each other.

    These are the parameters that learn, what a method has added (`COMPANION`) and, on request,
    BatchNorm's statistics; never BatchNorm's counters. What is frozen is the same everywhere and
    stays where it is.

    Args:
        model: The model. Its tensors are returned as they are, without a copy.
        statistics: Whether BatchNorm's means and variances are sent too.
    """
    named: Tensors = {name: p for name, p in model.named_parameters() if p.requires_grad}
    buffers = {name: b for name, b in model.named_buffers() if b.is_floating_point()}
    if buffers:  # many models have none
        still, known = frozen_layers(model), referred(model)
        named |= {
            name: buffer
            for name, buffer in buffers.items()
            if name not in known
            and name.rpartition(".")[0] not in still
            and (statistics or is_companion(name))
        }
    return {name: value.detach() for name, value in named.items()}


STATISTICS = ("running_mean", "running_var")


def is_statistic(name: str) -> bool:
    """Says whether a tensor is a statistic of BatchNorm.

    Args:
        name: The name of the tensor.
    """
    return name.endswith(STATISTICS)


def is_companion(name: str) -> bool:
    """Says whether a tensor is one that a method has added to a model (`COMPANION`).

    Args:
        name: The name of the tensor.
    """
    return name.startswith(f"{COMPANION}.")


def network_alone(tensors: Tensors) -> Tensors:
    """Returns the tensors of a network without those that a method has added (`COMPANION`).

    Args:
        tensors: The tensors of a model by name.
    """
    return {name: tensor for name, tensor in tensors.items() if not is_companion(name)}


def frozen(model: nn.Module) -> Tensors:
    """Returns the tensors of a model that never change but belong to it when it is saved.

    Those that are only referred to (`pretrained/referred.py`) do not; often there are none.

    Args:
        model: The model. Its tensors are returned as they are, without a copy.
    """
    learning, known = travelling(model, statistics=True), referred(model)
    every: Tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        name: value.detach()
        for name, value in every.items()
        if value.is_floating_point() and name not in learning and name not in known
    }


def frozen_layers(model: nn.Module) -> set[str]:
    """Names the layers of a model that have parameters of their own and learn none of them.

    Args:
        model: The model.
    """
    of_layers: dict[str, bool] = {}
    for name, parameter in model.named_parameters():
        layer = name.rpartition(".")[0]
        of_layers[layer] = of_layers.get(layer, False) or parameter.requires_grad
    return {layer for layer, learns in of_layers.items() if not learns}
