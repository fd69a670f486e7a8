"""The optimisers of the clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ofcl.compute import foreach


class _Uncompiled:
    """Methods of PyTorch's optimisers that do not import its compiler."""

    add_param_group: Any = foreach.undecorated(torch.optim.Optimizer.add_param_group)
    state_dict: Any = foreach.undecorated(torch.optim.Optimizer.state_dict)
    load_state_dict: Any = foreach.undecorated(torch.optim.Optimizer.load_state_dict)
    zero_grad: Any = foreach.undecorated(torch.optim.Optimizer.zero_grad)


class SGD(_Uncompiled, torch.optim.SGD):
    """PyTorch's SGD without momentum, and without what it does before each step.

    For one group of parameters, all of which have gradients.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, lr=lr)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step with the gradients that the parameters have."""
        group = self.param_groups[0]
        gradients = [parameter.grad for parameter in group["params"]]
        foreach.add_scaled(group["params"], gradients, -group["lr"])


class Adam(_Uncompiled, torch.optim.Adam):
    """PyTorch's Adam for a CPU without what it does before each step.

    For a network of a few small tensors, that takes longer than the step. The state is the same.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, lr=lr)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step with the gradients that the parameters have."""
        step_together([self])

    def states(self) -> list[dict[str, Tensor]]:
        """What was gathered for each parameter; in the beginning, nothing."""
        parameters = self.param_groups[0]["params"]
        return [self.state[parameter] or self._begun(parameter) for parameter in parameters]

    def _begun(self, parameter: Tensor) -> dict[str, Tensor]:
        begun = self.state[parameter] = {
            "step": torch.zeros(()),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        return begun


@torch.no_grad()
def step_together(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """A step of every optimiser; of those for a CPU, which have the same settings, in one call."""
    adams = [optimizer for optimizer in optimizers if isinstance(optimizer, Adam)]
    if len(adams) < len(optimizers):
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return
    group = adams[0].param_groups[0]
    parameters: list[Tensor] = [p for adam in adams for p in adam.param_groups[0]["params"]]
    states = [state for adam in adams for state in adam.states()]
    steps = [state["step"] for state in states]
    foreach.add_number(steps, 1)
    foreach.adam_step(
        parameters,
        [parameter.grad for parameter in parameters],  # type: ignore[misc]
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        steps,
        lr=group["lr"],
        betas=group["betas"],
        eps=group["eps"],
    )
    for parameter in parameters:  # clients that wait shall not keep their gradients
        parameter.grad = None


def descend(optimizer: torch.optim.Optimizer, loss: Tensor, parameters: list[nn.Parameter]) -> None:
    """One step down the gradient of a loss."""
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()
