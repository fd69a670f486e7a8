"""The network for vectors: one hidden layer."""

from __future__ import annotations

from torch import Tensor, nn


class MLP(nn.Module):
    """Linear, ReLU, linear. Samples of any shape are flattened.

    >>> import torch
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

    def features(self, x: Tensor) -> Tensor:
        """Samples → what the head sees."""
        features: Tensor = self.hidden(x.flatten(1)).relu()
        return features
