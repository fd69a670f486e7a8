"""Gradients of single samples: their norms, and their mean.

One backward of the summed loss gives, for every layer, the gradient g of its output. The gradient
of a layer's weights by one sample follows from g and the layer's input a: for a linear layer it is
g aᵀ. A network with layers of other kinds, or one that uses a layer twice, is taken sample by
sample. On a GPU, `ReplayedNorms` computes the same from a graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from ofcl.compute import foreach
from ofcl.models.norm import BatchNorm
from ofcl.models.resnet import PointConvolution
from ofcl.state import Tensors

AT_ONCE = 32  # samples whose gradients are held at the same time

Seen = list[tuple[nn.Module, Tensor, Tensor]]
"""Layers with their inputs and outputs."""

KNOWN = {nn.Linear, nn.Conv2d, PointConvolution, nn.BatchNorm2d, BatchNorm}
"""Layers at which the gradients of several samples can be told apart."""


def gradient_norms(
    model: nn.Module, weights: Tensors, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensors]:
    """Computes ‖∇ CE(f(x), y)‖ for every sample by itself, and the mean of all gradients.

    Args:
        model: The network f, in evaluation mode: no sample changes the gradient of another.
        weights: The parameters that learn by name, in place of those of the network.
        x: The samples (n, …); there is at least one.
        y: Their classes (n,), on the same device.

    Returns:
        The norms (n,), and the mean of the gradients by the names of the weights.
    """
    layers = learning_layers(model)
    at_once = AT_ONCE if all(map(is_known, layers)) else 1
    norms, sums = [], [torch.zeros_like(value) for value in weights.values()]
    rows = list(zip(torch.split(x, at_once), torch.split(y, at_once), strict=True))
    while rows:
        some, labels = rows.pop(0)
        of_each, of_all = gradients_at_once(model, layers, weights, some, labels)
        if of_each is None:
            rows = [*zip(torch.split(some, 1), torch.split(labels, 1), strict=True), *rows]
            continue
        norms.append(of_each)
        foreach.add_scaled(sums, of_all, 1.0)
    return torch.cat(norms), dict(zip(weights, (value / len(x) for value in sums), strict=True))


def gradients_at_once(
    model: nn.Module,
    layers: list[nn.Module],
    weights: Tensors,
    x: Tensor,
    y: Tensor,
    counts: Tensor | None = None,
) -> tuple[Tensor | None, tuple[Tensor, ...]]:
    """Computes the norms and the sum of the gradients of a few samples, by one backward.

    Args:
        model: The network, in evaluation mode.
        layers: Its layers that learn, of known kinds; of any kinds for a single sample.
        weights: The parameters that learn by name, in place of those of the network.
        x: The samples (n, …).
        y: Their classes (n,), on the same device.
        counts: How often each sample counts (n,); None: once.

    Returns:
        The norms (n,), or None for several samples if a layer is used twice: then its gradient is a
        sum over its uses. And the sum of the gradients of each of the weights.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    with torch.enable_grad(), watched(layers) as seen:
        losses = F.cross_entropy(functional_call(model, leaves, (x,)), y, reduction="none")
        loss = (losses if counts is None else losses * counts).sum()
        outputs = [output for _, _, output in seen]
        gradients = torch.autograd.grad(loss, [*outputs, *leaves.values()])
    of_outputs, of_weights = gradients[: len(seen)], gradients[len(seen) :]
    if len(x) == 1:
        return torch.stack(foreach.norms(of_weights)).square().sum().sqrt()[None], of_weights
    return (_norms(seen, of_outputs) if each_once(seen, layers) else None), of_weights


def learning_layers(model: nn.Module) -> list[nn.Module]:
    """Lists the modules of a network that have parameters of their own that learn.

    Args:
        model: The network.
    """
    return [module for module in model.modules() if _learns(module)]


def each_once(seen: Seen, layers: list[nn.Module]) -> bool:
    """Says whether each layer was used once.

    Args:
        seen: The uses of the layers.
        layers: The layers.
    """
    return len({module for module, _, _ in seen}) == len(seen) == len(layers)


def _learns(module: nn.Module) -> bool:
    """Says whether a module has parameters of its own that learn."""
    return any(p.requires_grad for p in module.parameters(recurse=False))


def is_known(module: nn.Module) -> bool:
    """Says whether the gradients of several samples can be told apart at a layer.

    Args:
        module: The layer. One of a class that is derived from PyTorch's may compute anything.
    """
    if type(module) not in KNOWN or not all(p.requires_grad for p in module.parameters()):
        return False
    if isinstance(module, nn.Conv2d):
        numbers = not isinstance(module.padding, str)
        return module.groups == 1 and module.padding_mode == "zeros" and numbers
    return not isinstance(module, nn.BatchNorm2d) or module.running_mean is not None


@contextmanager
def watched(layers: list[nn.Module]) -> Iterator[Seen]:
    """Collects the inputs and outputs of layers while the context is open.

    Args:
        layers: The layers.

    Yields:
        A list; each call of a layer appends an entry.
    """
    seen: Seen = []

    def watch(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """Notes a call; what follows gets a copy, as it may change it in place."""
        seen.append((layer, inputs[0].detach(), output))
        return output.clone()

    hooks = [layer.register_forward_hook(watch) for layer in layers]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _norms(seen: Seen, gradients: tuple[Tensor, ...]) -> Tensor:
    """Computes the norm (n,) of each sample's gradient, over all layers.

    Args:
        seen: Every layer with its input and output.
        gradients: The gradients of the outputs.
    """
    pairs = zip(seen, gradients, strict=True)
    return torch.stack([_squares(layer, a, g) for (layer, a, _), g in pairs]).sum(0).sqrt()


def _squares(layer: nn.Module, a: Tensor, g: Tensor) -> Tensor:
    """Computes the squared norm (n,) of each sample's gradient of a layer's weights and biases.

    Args:
        layer: The layer.
        a: Its input (n, …).
        g: The gradient of its output (n, …).
    """
    has_bias = float(getattr(layer, "bias", None) is not None)
    if isinstance(layer, nn.Conv2d):
        flat = g.flatten(2)  # (n, channels, places)
        of_weight = flat @ (gathered(layer, a) if a.is_cuda else _unfolded(layer, a))
        return of_weight.square().sum((1, 2)) + has_bias * flat.sum(2).square().sum(1)
    if isinstance(layer, nn.BatchNorm2d):
        assert layer.running_mean is not None
        assert layer.running_var is not None
        deviation = (layer.running_var + layer.eps).sqrt().view(-1, 1, 1)
        scaled = (a - layer.running_mean.view(-1, 1, 1)) / deviation
        return (g * scaled).sum((2, 3)).square().sum(1) + g.sum((2, 3)).square().sum(1)
    if a.dim() == 2:  # ‖g aᵀ‖ = ‖g‖ ‖a‖
        return g.square().sum(1) * (a.square().sum(1) + has_bias)
    flat, inputs = g.flatten(1, -2), a.flatten(1, -2)  # (n, places, features)
    of_weight = flat.transpose(1, 2) @ inputs
    return of_weight.square().sum((1, 2)) + has_bias * flat.sum(1).square().sum(1)


def _unfolded(layer: nn.Conv2d, a: Tensor) -> Tensor:
    """Lists the patches (n, places, values) of a convolution's input; fast on a CPU.

    A GPU would start a kernel for every sample.
    """
    patches = F.unfold(a, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
    return patches.transpose(1, 2)


def gathered(layer: nn.Conv2d, a: Tensor) -> Tensor:
    """Lists the patches (n, places, values) of a convolution's input; fast on a GPU.

    Args:
        layer: The convolution, whose padding is given in numbers.
        a: Its input (n, channels, height, width).
    """
    assert not isinstance(layer.padding, str)
    down, across = layer.padding
    windows = F.pad(a, (across, across, down, down))
    for side in (0, 1):
        size, step, apart = layer.kernel_size[side], layer.stride[side], layer.dilation[side]
        windows = windows.unfold(2 + side, apart * (size - 1) + 1, step)[..., ::apart]
    # Channels are last in memory, so each window is copied in long pieces.
    return windows.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
