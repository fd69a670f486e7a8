"""The norms of single samples' gradients, and their mean, replayed from a graph by a GPU.

Samples are taken in lots of a few sizes, so that few shapes are captured. A last lot that is not
full is filled up with samples that do not count.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ofcl.compute.cuda_graphs import Captured
from ofcl.methods.federated.gradient_norms import (
    each_once,
    gradient_norms,
    gradients_at_once,
    is_known,
    learning_layers,
    watched,
)
from ofcl.state import Tensors, copy_tensors

FEWEST, MOST = 16, 128  # samples in a lot; the sizes between are powers of two
HELD = 2**27  # numbers that all layers together may take and give for a lot: half a gigabyte


class ReplayedNorms:
    """Computes what `gradient_norms` computes, by a graph where a GPU can replay one.

    A CPU takes `gradient_norms` itself. So does a GPU for networks whose gradients have to be taken
    sample by sample.

    Args:
        model: The network, in evaluation mode. Its tensors stay where they are in memory, except
            those of the head when it grows (`grow`).
        capture: Whether a GPU may replay what the network computes.
    """

    def __init__(self, model: nn.Module, *, capture: bool = True) -> None:
        self._model = model
        device = next(model.parameters()).device
        self._captured = Captured(self._of_lot, device, capture=capture)
        self._most = 0  # samples in a lot; 0: not known yet
        self.grow()

    def grow(self) -> None:
        """Takes the network's tensors as they are now; called when its head has got outputs."""
        learning = {name: p for name, p in self._model.named_parameters() if p.requires_grad}
        self._weights = {
            name: torch.empty_like(p, requires_grad=False)
            for name, p in (learning if self._captured.replays else {}).items()
        }
        self._captured.forget()

    def __call__(self, weights: Tensors, x: Tensor, y: Tensor) -> tuple[Tensor, Tensors]:
        """Computes the norm of every sample's gradient, and the mean of all gradients.

        Args:
            weights: The parameters that learn by name, in place of those of the network.
            x: The samples (n, …); there is at least one.
            y: Their classes (n,), on the same device.

        Returns:
            The norms (n,), and the mean of the gradients by the names of the weights.
        """
        if self._captured.replays and not self._most:
            self._most = most_at_once(self._model, x)
        if self._most <= 1:
            return gradient_norms(self._model, weights, x, y)
        copy_tensors(self._weights, weights)
        norms, total, start = [], torch.zeros((), device=x.device), 0
        while start < len(x):
            n = min(len(x) - start, self._most)
            lot = min(max(1 << (n - 1).bit_length(), FEWEST), self._most)
            some, labels = (_filled(values[start : start + n], lot) for values in (x, y))
            counts = (torch.arange(lot, device=x.device) < n).float()
            result = self._captured(some, labels, counts)
            norms.append(result[:n])
            total = total + result[lot:]
            start += n
        return torch.cat(norms), self._named(total / len(x))

    def _of_lot(self, x: Tensor, y: Tensor, counts: Tensor) -> Tensor:
        """Computes the norms of a lot, and behind them the sum of its gradients, in one row.

        Args:
            x: The samples (n, …).
            y: Their classes (n,).
            counts: 1 for samples that count, 0 for those that fill the lot (n,).
        """
        layers = learning_layers(self._model)
        norms, sums = gradients_at_once(self._model, layers, self._weights, x, y, counts)
        assert norms is not None
        return torch.cat([norms, *(value.flatten() for value in sums)])

    def _named(self, row: Tensor) -> Tensors:
        """Cuts a row of numbers into tensors by the names of the weights."""
        sizes = [value.numel() for value in self._weights.values()]
        parts = zip(self._weights.items(), torch.split(row, sizes), strict=True)
        return {name: part.view(value.shape) for (name, value), part in parts}


def _filled(values: Tensor, lot: int) -> Tensor:
    """Repeats the last row of some values until there are as many as in a lot."""
    missing = lot - len(values)
    return torch.cat([values, values[-1:].expand(missing, *values.shape[1:])])


@torch.no_grad()
def most_at_once(model: nn.Module, x: Tensor) -> int:
    """Chooses how many samples a lot has at most: as many as `HELD` allows, by trying one.

    Args:
        model: The network, in evaluation mode.
        x: Samples (n, …), at least one.

    Returns:
        A power of two, at most 128; 1 if gradients have to be taken sample by sample.
    """
    layers = learning_layers(model)
    if not all(map(is_known, layers)):
        return 1
    with watched(layers) as seen:
        model(x[:1])
    if not each_once(seen, layers):
        return 1
    held = sum(taken.numel() + given.numel() for _, taken, given in seen)
    return min(1 << (max(HELD // held, 1).bit_length() - 1), MOST)
