"""Any module that computes logits, made to fit: its last layer becomes the head.

Learning needs a linear `head` that can grow with the classes, and the `features` that go into it.
An unmodified network of another library has both, under names of its own.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ofcl.errors import OfclError

TRIED = 2  # samples with which a network is tried; BatchNorm needs two


class Adapted(nn.Module):
    """A network of another library, as a body without its last layer and a head.

    Frozen normalisation layers stay as they are in training. If the network draws random numbers in
    training (dropout), it draws them from a generator of its own, whose state is saved with it.

    Args:
        body: The network; what it returns goes into the head.
        head: The linear layer over the classes.
        draws: Whether the body draws random numbers in training.
        referred: The names of frozen tensors that can be had again by a name and a checksum; they
            are never saved (`pretrained/referred.py`).
        recomputes: Whether the body computes activations again in the backward pass.
    """

    dice: Tensor

    def __init__(
        self,
        body: nn.Module,
        head: nn.Linear,
        draws: bool,
        *,
        referred: frozenset[str] = frozenset(),
        recomputes: bool = False,
    ) -> None:
        super().__init__()
        self.body, self.head, self.draws = body, head, draws
        self.referred, self.recomputes = referred, recomputes
        if draws:
            state = torch.default_generator.get_state()
            self.register_buffer("dice", state.clone())  # not of floats, so it never travels

    def features(self, x: Tensor) -> Tensor:
        """Computes the inputs (n, d) of the head for samples.

        Args:
            x: The samples (n, …).
        """
        if not (self.draws and self.training):
            features: Tensor = self.body(x)
            return features
        devices = [x.device] if x.is_cuda else []
        with torch.random.fork_rng(devices):
            torch.default_generator.set_state(self.dice.cpu())
            if x.is_cuda:  # the GPU's generator follows the CPU's
                torch.cuda.manual_seed(int(torch.randint(2**62, ()).item()))
            elif x.device.type == "mps":
                torch.mps.manual_seed(int(torch.randint(2**62, ()).item()))
            features = self.body(x)
            self.dice.copy_(torch.default_generator.get_state())
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Computes the logits (n, classes) of samples.

        Args:
            x: The samples (n, …).
        """
        logits: Tensor = self.head(self.features(x))
        return logits

    def train(self, mode: bool = True) -> Adapted:
        """Sets the mode of all layers, except that frozen normalisation stays in evaluation.

        Args:
            mode: Whether the network is in training.
        """
        super().train(mode)
        if not mode:
            return self
        for name, module in self.body.named_modules():
            own = list(module.parameters(recurse=False))
            statistics = getattr(module, "running_mean", None) is not None
            still = own and not any(p.requires_grad for p in own)
            if statistics and (still or f"body.{name}.running_mean" in self.referred):
                module.eval()
        return self

    def seed(self, seed: int) -> None:
        """Gives the network another generator for its random numbers; nothing if it draws none.

        Args:
            seed: The seed.
        """
        if self.draws:
            self.dice.copy_(torch.Generator().manual_seed(seed).get_state())


def fits(module: nn.Module) -> bool:
    """Says whether a module has what learning needs: a linear `head`, and a method `features`.

    Args:
        module: The module.
    """
    head, features = getattr(module, "head", None), getattr(module, "features", None)
    linear = isinstance(head, nn.Linear) and head.bias is not None
    return linear and callable(features) and not isinstance(features, nn.Module)


def adapt(module: nn.Module, shape: tuple[int, ...], classes: int, name: str) -> nn.Module:
    """Makes a module fit for learning.

    If its last layer is linear, that layer becomes the head, with as many outputs as there are
    classes. Otherwise the module's output counts as features, and a new head is put on top.

    Args:
        module: The module, which is changed.
        shape: The shape of one sample.
        classes: The number of classes.
        name: The name of the module, for messages.

    Raises:
        OfclError: If the module cannot take such samples, or does not return one vector for each.
    """
    if fits(module):
        return module
    last, features = _last_layer(module, shape, name)
    if last is None:
        head = nn.Linear(features, classes)
    else:
        head = _head(module.get_submodule(last), classes)
        if last == "":  # the module is a linear layer itself
            module = nn.Identity()
        else:
            _put(module, last, nn.Identity())
    return Adapted(module, head, _draws(module, shape))


def _head(layer: nn.Module, classes: int) -> nn.Linear:
    """Returns a head with the weights of a network's last layer, if it has as many outputs.

    Args:
        layer: The last layer of the network.
        classes: The number of classes.
    """
    assert isinstance(layer, nn.Linear)
    head = nn.Linear(layer.in_features, classes)
    if layer.out_features == classes:
        with torch.no_grad():
            head.weight.copy_(layer.weight)
            head.bias.zero_() if layer.bias is None else head.bias.copy_(layer.bias)
    return head


def _last_layer(module: nn.Module, shape: tuple[int, ...], name: str) -> tuple[str | None, int]:
    """Finds the linear layer whose output is what a module returns.

    Args:
        module: The module.
        shape: The shape of one sample.
        name: The name of the module, for messages.

    Returns:
        The name of the layer, None if there is none; and the number of the module's outputs.
    """
    outputs: list[tuple[str, Tensor]] = []
    hooks = [
        layer.register_forward_hook(lambda _m, _i, out, key=key: outputs.append((key, out)))
        for key, layer in module.named_modules()
        if isinstance(layer, nn.Linear)
    ]
    try:
        result = _tried(module, shape)
    except Exception as error:
        size = " × ".join(map(str, shape))
        raise OfclError(
            f"the model '{name}' cannot take samples of the shape {size}: {_line(error)}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(result, Tensor) or result.dim() != 2 or not result.is_floating_point():
        came = f"{tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        raise OfclError(
            f"the model '{name}' must return logits, one row for each sample; of {TRIED} samples "
            f"came {came}"
        )
    return next((key for key, out in outputs if out is result), None), result.shape[1]


@torch.no_grad()
def _tried(module: nn.Module, shape: tuple[int, ...]) -> Any:
    """Returns what a module makes of a few samples of zeros, in evaluation mode."""
    training, parameter = module.training, next(module.parameters(), torch.empty(0))
    x = torch.zeros(TRIED, *shape, device=parameter.device)
    try:
        return module.eval()(x)
    finally:
        module.train(training)


def _draws(module: nn.Module, shape: tuple[int, ...]) -> bool:
    """Says whether a module draws random numbers in training; a copy of it is tried.

    Args:
        module: The module.
        shape: The shape of one sample.
    """
    parameter = next(module.parameters(), torch.empty(0))
    if parameter.is_meta:
        return False  # it is only planned
    x = torch.ones(TRIED, *shape)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        before = torch.default_generator.get_state()
        copy.deepcopy(module).cpu().train()(x)
        return not torch.equal(before, torch.default_generator.get_state())


def _put(module: nn.Module, name: str, layer: nn.Module) -> None:
    """Puts a layer into a module in place of the one with that name."""
    parent, _, last = name.rpartition(".")
    setattr(module.get_submodule(parent), last, layer)


def _line(error: Exception) -> str:
    """Returns the first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
