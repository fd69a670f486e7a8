"""The network for vectors: one hidden layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ofcl.state import Tensors


class MLP(nn.Module):
    """Linear, ReLU, linear. Samples of any shape are flattened.

    >>> MLP(4, 8, 3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Samples (n, …) → logits (n, classes)."""
        logits: Tensor = self.head(self.features(x))
        return logits

    @staticmethod
    def stacked(weights: Tensors, x: Tensor) -> Tensor:
        """Samples (clients, n, …) and the stacked weights of as many networks → their logits."""
        for layer in ("hidden", "head"):
            x = x.flatten(2) if layer == "hidden" else x.relu()
            weight, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
            x = StackedLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return x

    def features(self, x: Tensor) -> Tensor:
        """Samples → what the head sees."""
        features: Tensor = self.hidden(x.flatten(1)).relu()
        return features


class StackedLinear(torch.autograd.Function):
    """Linear layers of several clients at once; gradients lie in memory as the weights do.

    Those that autograd finds for a batched product would lie the other way round.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Inputs (clients, n, in), weights (clients, out, in), biases (clients, out)."""
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """The gradients of the three; of inputs that are data there is none."""
        x, weight = ctx.saved_tensors
        of_x = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        return of_x, torch.bmm(gradient.transpose(1, 2), x), gradient.sum(1)
