"""A client's update: tensors of its model and a few counts. Nothing else leaves a client."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from ofcl.state import Tensors, nbytes


@dataclass(frozen=True)
class Update:
    """The message of a client to the server at a communication point.

    Args:
        client: The client's number.
        state: The tensors of its model that travel.
        samples: How many samples of its current task it has learned.
        classes: How many of them are of each class; empty if the aggregation does not need that.
        extras: What a generative method sends besides the model.
    """

    client: int
    state: Tensors
    samples: int
    classes: dict[int, int]
    extras: Tensors = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The size of the message: its tensors, and eight bytes for every count."""
        return nbytes(self.state) + nbytes(self.extras) + 8 * (1 + 2 * len(self.classes))


def travelling(model: nn.Module, statistics: bool) -> Tensors:
    """Returns the tensors of a model that travel: not BatchNorm's counters.

    Args:
        model: The model, whose tensors are returned without a copy.
        statistics: Whether BatchNorm's means and variances travel too.
    """
    named: Tensors = dict(model.named_parameters())
    if statistics:
        named |= {n: b for n, b in model.named_buffers() if b.is_floating_point()}
    return {name: value.detach() for name, value in named.items()}
