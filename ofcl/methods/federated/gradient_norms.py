"""Gradients of single samples: their norms, and their mean.

One backward of the summed loss gives, for every layer, the gradient g of its output. The gradient
of a layer's weights by one sample follows from g and the layer's input a: for a linear layer it is
g aᵀ. A network with layers of other kinds, or one that uses a layer twice, is taken sample by
sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from ofcl.compute import foreach
from ofcl.state import Tensors

AT_ONCE = 32  # samples whose gradients are held at the same time

Seen = list[tuple[nn.Module, Tensor, Tensor]]
"""Layers with their inputs and outputs."""


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
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    layers = [module for module in model.modules() if _learns(module)]
    at_once = AT_ONCE if all(map(_is_known, layers)) else 1
    norms, sums = [], [torch.zeros_like(value) for value in weights.values()]
    rows = list(zip(torch.split(x, at_once), torch.split(y, at_once), strict=True))
    while rows:
        some, labels = rows.pop(0)
        with torch.enable_grad(), _watched(layers) as seen:
            logits = functional_call(model, leaves, (some,))
            loss = F.cross_entropy(logits, labels, reduction="sum")
            outputs = [output for _, _, output in seen]
            gradients = torch.autograd.grad(loss, [*outputs, *leaves.values()])
        of_outputs, of_weights = gradients[: len(seen)], gradients[len(seen) :]
        if len(some) == 1:
            norms.append(torch.stack(foreach.norms(of_weights)).square().sum().sqrt()[None])
        elif len({module for module, _, _ in seen}) == len(seen) == len(layers):
            norms.append(_norms(seen, of_outputs))
        else:  # a layer was used twice: its gradients are sums over its uses
            rows = [*zip(torch.split(some, 1), torch.split(labels, 1), strict=True), *rows]
            continue
        foreach.add_scaled(sums, of_weights, 1.0)
    return torch.cat(norms), dict(zip(weights, (value / len(x) for value in sums), strict=True))


def _learns(module: nn.Module) -> bool:
    """Says whether a module has parameters of its own that learn."""
    return any(p.requires_grad for p in module.parameters(recurse=False))


def _is_known(module: nn.Module) -> bool:
    """Says whether `_squares` knows a layer."""
    if isinstance(module, nn.Conv2d):
        return module.groups == 1 and module.padding_mode == "zeros" and _numbers(module.padding)
    normal = isinstance(module, nn.BatchNorm2d) and module.running_mean is not None
    every = all(p.requires_grad for p in module.parameters(recurse=False))
    return every and (normal or type(module) is nn.Linear)


def _numbers(padding: object) -> bool:
    """Says whether a convolution's padding is given in numbers, not in words."""
    return isinstance(padding, tuple)


@contextmanager
def _watched(layers: list[nn.Module]) -> Iterator[Seen]:
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
        patches = F.unfold(a, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
        flat = g.flatten(2)  # (n, channels, places)
        of_weight = flat @ patches.transpose(1, 2)
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
