"""The clients' optimisers: PyTorch's SGD and Adam without the checks before each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ofcl.compute import foreach


class _Uncompiled:
    """PyTorch's optimiser methods without the decorator that imports its compiler."""

    add_param_group: Any = foreach.undecorated(torch.optim.Optimizer.add_param_group)
    state_dict: Any = foreach.undecorated(torch.optim.Optimizer.state_dict)
    load_state_dict: Any = foreach.undecorated(torch.optim.Optimizer.load_state_dict)
    zero_grad: Any = foreach.undecorated(torch.optim.Optimizer.zero_grad)


class SGD(_Uncompiled, torch.optim.SGD):
    """PyTorch's SGD without momentum, and without its checks before each step.

    Args:
        parameters: The parameters to change; all of them must have gradients in every step.
        lr: The learning rate.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, lr=lr)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Takes a step with the gradients that the parameters have.

        Args:
            closure: Not used; PyTorch's optimisers take it.
        """
        group = self.param_groups[0]
        gradients = [parameter.grad for parameter in group["params"]]
        foreach.add_scaled(group["params"], gradients, -group["lr"])


class Adam(_Uncompiled, torch.optim.Adam):
    """PyTorch's Adam for a CPU without its checks before each step.

    For a network of a few small tensors, the checks take longer than the step. The state has the
    form of PyTorch's Adam, so each of the two can continue from the state of the other.

    Args:
        parameters: The parameters to change; all of them must have gradients in every step.
        lr: The learning rate.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, lr=lr)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Takes a step with the gradients that the parameters have, and clears the gradients.

        Args:
            closure: Not used; PyTorch's optimisers take it.
        """
        step_together([self])

    def states(self) -> list[dict[str, Tensor]]:
        """Returns the state of each parameter (`step`, …); all zeros before the first step."""
        parameters = self.param_groups[0]["params"]
        return [self.state[parameter] or self._new_state(parameter) for parameter in parameters]

    def _new_state(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter] = {
            "step": torch.zeros(()),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
        return state


@torch.no_grad()
def step_together(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Takes a step of every optimiser and clears the gradients; in one call if all are `Adam`.

    Args:
        optimizers: The optimisers of several clients; they have the same settings.
    """
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
    for parameter in parameters:  # a client that waits for others would keep them in memory
        parameter.grad = None


def descend(
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    parameters: list[nn.Parameter],
    adjust: Callable[[list[Tensor]], list[Tensor]] | None = None,
) -> None:
    """Computes the gradient of a loss, and takes a step of an optimiser with it.

    Args:
        optimizer: The optimiser of the parameters.
        loss: A scalar tensor that depends on the parameters.
        parameters: The parameters to compute the gradient for.
        adjust: Changes the gradients before the step; None: they stay as they are.
    """
    # A network of somebody else may have parameters that do not reach the loss: they get zeros.
    gradients = list(torch.autograd.grad(loss, parameters, materialize_grads=True))
    if adjust is not None:
        with torch.no_grad():
            gradients = adjust(gradients)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
