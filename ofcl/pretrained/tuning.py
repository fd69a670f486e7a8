"""The part of a pretrained network that learns: nothing of it, adapters, the last blocks, or all.

Adapters are LoRA (Hu et al. 2022): beside a frozen matrix W there is a product B·A of low rank,
which starts at zero. Only A and B learn, and the weights of normalisation layers.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

from torch import nn

from ofcl.errors import OfclError
from ofcl.pretrained.backbone_names import TUNE, is_tune

NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm)
PEFT_EXTRA = "install it with: pip install 'ofcl[vision]' (or 'ofcl[text]')"


@dataclass(frozen=True)
class Tuning:
    """How a pretrained network learns.

    Args:
        tune: `head`, `lora`, `last:N` or `all`.
        rank: The rank of the adapters.
        side: The side to which images are resized; None: the one that the network was trained on.
        recompute: Whether gradient steps compute activations again instead of storing them.
        weights: The file or folder of the weights; None: the package, or the hub.
        expected: The checksum that the weights must have; None: any.
    """

    tune: str = "lora"
    rank: int = 4
    side: int | None = None
    recompute: bool = False
    weights: str | None = None
    expected: str | None = None


def set_learning(network: nn.Module, how: Tuning, name: str) -> None:
    """Freezes what does not learn, and puts adapters in; draws from PyTorch's generator.

    Args:
        network: The pretrained network, without a head; it is changed.
        how: How it learns.
        name: Its name, for messages.

    Raises:
        OfclError: If it cannot learn in this way.
    """
    if not is_tune(how.tune):
        raise OfclError(f"tune = '{how.tune}' is not known; expected {TUNE}")
    network.requires_grad_(how.tune == "all")
    if how.tune == "lora":
        _add_adapters(network, how.rank, name)
    elif how.tune.startswith("last:"):
        wanted, blocks = int(how.tune.removeprefix("last:")), blocks_of(network)
        if wanted > len(blocks):
            raise OfclError(
                f"tune = '{how.tune}', but '{name}' has {len(blocks)} blocks; use last:"
                f"{len(blocks)} or fewer, or all"
            )
        chosen = {parameter for block in blocks[-wanted:] for parameter in block}
        for key, parameter in network.named_parameters():
            parameter.requires_grad_(key in chosen)
    if how.recompute:
        _recompute(network, name)


def blocks_of(network: nn.Module) -> list[list[str]]:
    """Lists the blocks of a network from the first to the last, as the names of their parameters.

    What follows the last block, such as a normalisation, belongs to it.

    Args:
        network: A network of timm, which says itself what its blocks are, or of transformers.
    """
    matcher: Any = getattr(network, "group_matcher", None)
    if matcher is not None:
        from timm.models import group_parameters

        groups = group_parameters(network, matcher(coarse=False))
        return [list(groups[number]) for number in sorted(groups)]
    lists = [(n, m) for n, m in network.named_modules() if isinstance(m, nn.ModuleList)]
    prefix, layers = max(lists, key=lambda item: len(item[1]), default=("", nn.ModuleList()))
    blocks = [
        [f"{prefix}.{number}.{key}" for key, _ in layer.named_parameters()]
        for number, layer in enumerate(layers)
    ]
    names = [key for key, _ in network.named_parameters()]
    if blocks and blocks[-1]:
        blocks[-1] += names[names.index(blocks[-1][-1]) + 1 :]
    return blocks


def adapted_layers(network: nn.Module) -> list[str]:
    """Names the layers that get adapters: linear ones, and convolutions over all channels.

    Args:
        network: The network.
    """
    return [
        name
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv2d) and layer.groups == 1)
    ]


def _add_adapters(network: nn.Module, rank: int, name: str) -> None:
    """Puts adapters beside linear layers and convolutions, and lets normalisation layers learn.

    Their weights are few, and are all that scales the channels of convolutions that are applied
    channel by channel, which get no adapters.
    """
    if importlib.util.find_spec("peft") is None:
        raise OfclError(f"tune = 'lora' needs the package peft; {PEFT_EXTRA}, or use tune = 'head'")
    from peft import LoraConfig, inject_adapter_in_model

    layers = adapted_layers(network)
    if not layers:
        raise OfclError(f"'{name}' has no linear layer and no convolution for adapters; use "
                        "tune = 'last:1' or 'all'")  # fmt: skip
    how = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=layers)
    inject_adapter_in_model(how, network)
    for layer in network.modules():
        if isinstance(layer, NORMS):
            layer.requires_grad_(True)


def _recompute(network: nn.Module, name: str) -> None:
    """Lets a network compute activations again in the backward pass."""
    of_timm: Any = getattr(network, "set_grad_checkpointing", None)
    of_transformers: Any = getattr(network, "gradient_checkpointing_enable", None)
    try:
        if of_timm is not None:
            of_timm(True)
            return
        if of_transformers is not None:
            network.config.use_cache = False  # type: ignore[union-attr]  # it warns otherwise
            of_transformers(gradient_checkpointing_kwargs={"use_reentrant": False})
            return
    except (AssertionError, ValueError):
        pass
    raise OfclError(f"'{name}' cannot recompute its activations; leave out recompute")
