"""What leaves a client, and nothing else does: tensors of its model and a few counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from ofcl.state import Tensors, nbytes


@dataclass(frozen=True)
class Update:
    """What a client sends to the server at a communication point."""

    client: int
    state: Tensors
    samples: int  # of the current task
    classes: dict[int, int]  # samples of each class of it; empty unless somebody needs them
    extras: Tensors = field(default_factory=dict)  # what a method sends besides the model

    @property
    def nbytes(self) -> int:
        """Size on the way: the tensors, and eight bytes for every number."""
        return nbytes(self.state) + nbytes(self.extras) + 8 * (1 + 2 * len(self.classes))


def travelling(model: nn.Module, statistics: bool) -> Tensors:
    """The parameters of a model and, if asked, its BatchNorm statistics; not its counters."""
    named: Tensors = dict(model.named_parameters())
    if statistics:
        named |= {n: b for n, b in model.named_buffers() if b.is_floating_point()}
    return {name: value.detach() for name, value in named.items()}
