"""The network for vectors: one hidden layer. The networks of several clients can run at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ofcl.state import Tensors


class MLP(nn.Module):
    """A network of a linear layer, ReLU and a linear head; samples of any shape are flattened.

    >>> MLP(4, 8, 3)(torch.zeros(2, 4)).shape
    torch.Size([2, 3])

    Args:
        features: The number of values in a sample.
        hidden: The units of the hidden layer.
        classes: The number of outputs of the head.
    """

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the logits (n, classes) of samples.

        Args:
            x: The samples (n, …).
        """
        logits: Tensor = self.head(self.features(x))
        return logits

    @staticmethod
    def stacked(weights: Tensors, x: Tensor) -> Tensor:
        """Computes the logits (clients, n, classes) of several clients' networks at once.

        Args:
            weights: The parameters by name; each is stacked over the clients, (clients, …).
            x: The samples of each client, (clients, n, …).
        """
        return MLP.stacked_head(weights, MLP.stacked_features(weights, x))

    @staticmethod
    def stacked_features(weights: Tensors, x: Tensor) -> Tensor:
        """Computes the inputs (clients, n, hidden) of several clients' heads at once.

        Args:
            weights: The parameters by name; each is stacked over the clients, (clients, …).
            x: The samples of each client, (clients, n, …).
        """
        return _stacked_layer(weights, "hidden", x.flatten(2)).relu()

    @staticmethod
    def stacked_head(weights: Tensors, features: Tensor) -> Tensor:
        """Computes the logits (clients, n, classes) of several clients' heads at once.

        Args:
            weights: The parameters by name; each is stacked over the clients, (clients, …).
            features: The inputs of the heads, (clients, n, hidden).
        """
        return _stacked_layer(weights, "head", features)

    def features(self, x: Tensor) -> Tensor:
        """Computes the inputs (n, hidden) of the head for samples.

        Args:
            x: The samples (n, …).
        """
        features: Tensor = self.hidden(x.flatten(1)).relu()
        return features


def _stacked_layer(weights: Tensors, layer: str, x: Tensor) -> Tensor:
    """Computes the outputs (clients, n, out) of a linear layer in several clients' networks.

    Args:
        weights: The parameters by name; each is stacked over the clients, (clients, …).
        layer: The name of the layer: `hidden` or `head`.
        x: The inputs of the layer, (clients, n, in).
    """
    weight, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
    outputs: Tensor = StackedLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return outputs


class StackedLinear(torch.autograd.Function):
    """The linear layers of several clients, computed in one call.

    The gradients of the weights have the weights' memory layout, which a fused optimiser needs.
    Autograd's own gradients of a batched product would be transposed.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Computes the outputs (clients, n, out) of the layers.

        Args:
            ctx: PyTorch's context, which keeps the inputs for `backward`.
            x: The inputs of each client's layer, (clients, n, in).
            weight: The weights of each client's layer, (clients, out, in).
            bias: The biases of each client's layer, (clients, out).
        """
        ctx.save_for_backward(x, weight)
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Computes the gradients of x, weight and bias.

        Args:
            ctx: PyTorch's context with the inputs of `forward`.
            gradient: The gradient of the outputs, (clients, n, out).

        Returns:
            The three gradients; None for x if its gradient is not needed.
        """
        x, weight = ctx.saved_tensors
        of_x = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        return of_x, torch.bmm(gradient.transpose(1, 2), x), gradient.sum(1)
