"""The weights of several small networks, stacked so that one call computes for all of them.

Each network's parameters are views of its part of the stack, and can be used as before. Do not keep
their tensors (`parameter.data`): the next stacking gives the parameters others.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from ofcl.state import Tensors


class StackedWeights:
    """A stack of the weights of several networks that have the same shapes.

    >>> networks = [nn.Linear(3, 2), nn.Linear(3, 2)]
    >>> StackedWeights().gather(networks)["weight"].shape
    torch.Size([2, 2, 3])
    """

    def __init__(self) -> None:
        self._weights: Tensors = {}
        self.parameters: list[nn.Parameter] = []
        """The stacked parameters, of one network after another."""

    def gather(self, models: Sequence[nn.Module]) -> Tensors:
        """Stacks the weights of some networks, unless the last call stacked the same ones.

        Args:
            models: The networks; they may be different ones in every call.

        Returns:
            The weights by name; each has those of all networks, (networks, …).
        """
        parameters = [parameter for model in models for parameter in model.parameters()]
        if list(map(id, parameters)) == list(map(id, self.parameters)):
            return self._weights
        staying = set(map(id, parameters))
        for parameter in self.parameters:
            if id(parameter) not in staying:  # a view would keep the whole stack that it was of
                parameter.data = parameter.detach().clone()
        for name, _ in models[0].named_parameters():
            own = [model.get_parameter(name) for model in models]
            together = torch.stack([parameter.detach() for parameter in own])
            for part, parameter in zip(together, own, strict=True):
                parameter.data = part
            self._weights[name] = together.requires_grad_()
        self.parameters = parameters
        return self._weights
