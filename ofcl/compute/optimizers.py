"""The optimisers of the clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def _plain(name: str) -> Any:
    """A method of PyTorch's optimisers as it was written.

    Around it is what keeps the compiler away. It imports the compiler for that, which takes a
    second; nothing here is compiled.
    """
    method = getattr(torch.optim.Optimizer, name)
    return getattr(method, "__wrapped__", method)


class _Uncompiled:
    add_param_group = _plain("add_param_group")
    state_dict = _plain("state_dict")
    load_state_dict = _plain("load_state_dict")
    zero_grad = _plain("zero_grad")


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
        torch._foreach_add_(group["params"], gradients, alpha=-group["lr"])


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
    torch._foreach_add_(steps, 1)
    torch._fused_adam_(
        parameters,
        [parameter.grad for parameter in parameters],  # type: ignore[misc]
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        steps,
        lr=group["lr"],
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        weight_decay=0.0,
        eps=group["eps"],
        amsgrad=False,
        maximize=False,
    )
    for parameter in parameters:  # clients that wait shall not keep their gradients
        parameter.grad = None


def descend(optimizer: torch.optim.Optimizer, loss: Tensor, parameters: list[nn.Parameter]) -> None:
    """One step down the gradient of a loss."""
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()
