"""Encoders of transformers for texts, which arrive as token ids."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ofcl.errors import OfclError
from ofcl.pretrained.backbone_names import Backbone
from ofcl.pretrained.tokens import OFFLINE, place_of
from ofcl.pretrained.weights import not_to_be_had


class TextNetwork(nn.Module):
    """An encoder whose features are the mean over the tokens of a text, without padding.

    Args:
        network: The encoder of transformers.
        padding: The token that fills up short texts.
    """

    def __init__(self, network: nn.Module, padding: int) -> None:
        super().__init__()
        self.network, self._padding = network, padding

    def forward(self, x: Tensor) -> Tensor:
        """Computes the features (n, d) of texts.

        Args:
            x: Token ids (n, length).
        """
        there = (x != self._padding).long()
        found = self.network(input_ids=x.long(), attention_mask=there)
        states: Tensor = found.last_hidden_state  # (n, length, d)
        weight = there.unsqueeze(-1).to(states.dtype)
        return (states * weight).sum(1) / weight.sum(1).clamp_min(1)


def load_transformer(backbone: Backbone) -> nn.Module:
    """Loads an encoder without a pooling layer, in evaluation mode, on the CPU.

    Dropout is switched off: a stream shows a sample once, and steps without draws are repeatable.

    Args:
        backbone: The network and the place of its weights.

    Raises:
        OfclError: If its weights cannot be had, or it is no encoder of texts.
    """
    where = place_of(backbone)
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        how = AutoConfig.from_pretrained(where, trust_remote_code=False)
        for name in [name for name in vars(how) if "drop" in name.lower()]:
            if isinstance(getattr(how, name), float):
                setattr(how, name, 0.0)
        # Safetensors alone: other files of weights may run code when they are read.
        network: Any = AutoModel.from_pretrained(
            where, config=how, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
        )
    except Exception as error:  # of the hub, the network, the disk, the file format
        raise not_to_be_had(backbone.name, error, OFFLINE) from None
    if not hasattr(how, "vocab_size") or getattr(how, "vision_config", None) is not None:
        raise OfclError(f"'{backbone.name}' is no encoder of texts; for images: timm:NAME")
    if getattr(network, "pooler", None) is not None:
        network.pooler = None  # it is not used
    made: nn.Module = network.eval()
    return made


def most_tokens(network: nn.Module) -> int | None:
    """Returns the number of tokens that an encoder can take; None: nobody knows.

    Args:
        network: The encoder of transformers.
    """
    found = getattr(network.config, "max_position_embeddings", None)
    return int(found) if isinstance(found, int) else None
