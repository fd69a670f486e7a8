"""Pretrained networks as models: a backbone of which a part learns, and a head over the classes."""

from __future__ import annotations

import copy
import functools
import os
from typing import NamedTuple

import torch
from torch import nn

from ofcl.errors import OfclError
from ofcl.models.adapted import Adapted
from ofcl.models.model import Model, ModelSize
from ofcl.pretrained.backbone_names import PACKAGED, TIMM, TRANSFORMERS, Backbone, parse_backbone
from ofcl.pretrained.image_networks import load_timm, sized
from ofcl.pretrained.text_networks import TextNetwork, load_transformer, most_tokens
from ofcl.pretrained.tokens import find_tokeniser
from ofcl.pretrained.tuning import Tuning, set_learning
from ofcl.pretrained.weights import checksum

_KNOWN: dict[tuple[str, str], Backbone] = {}
"""Where weights are that were loaded in this process, by the network's name and the checksum."""


class Loaded(NamedTuple):
    """A pretrained network with the checksum of its weights."""

    network: nn.Module
    checksum: str


def pretrained_model(name: str) -> Model:
    """Makes the model of a pretrained network that settings can name.

    Args:
        name: A name for which `is_backbone` holds.
    """
    return Model(f"pretrained: {name}", functools.partial(_build, name))


def find_checksum(name: str, weights: str | None = None) -> str:
    """Returns the checksum of the weights of a pretrained network as they are here.

    Args:
        name: The name of the network.
        weights: The file or folder of the weights; None: as the name says.

    Raises:
        OfclError: If the weights cannot be had.
    """
    return _load(parse_backbone(name).at(weights)).checksum


def find_bytes(name: str, weights: str | None = None) -> int:
    """Counts the bytes of the weights of a pretrained network.

    Args:
        name: The name of the network.
        weights: The file or folder of the weights; None: as the name says.
    """
    network = _load(parse_backbone(name).at(weights)).network
    return sum(parameter.nbytes for parameter in network.parameters())


def check_at_hand(name: str, wanted: str) -> None:
    """Raises an error if the weights that a model refers to are not at hand.

    They are if they come as a package, or were loaded in this process. Nothing is downloaded
    because a file names it.

    Args:
        name: The name of the network, which a file says.
        wanted: The checksum of its weights.
    """
    if name in PACKAGED:
        check_weights(name, find_checksum(name), wanted)
    elif (name, wanted) not in _KNOWN:
        place = f"{name}@FILE.safetensors" if name.startswith(TIMM) else f"{TRANSFORMERS}FOLDER"
        raise OfclError(
            f"it was learned from '{name}' (checksum {wanted[:16]}), whose weights are not in it "
            f"and not at hand: say where they are, --embedder {place}, or take them from the hub, "
            f"--embedder {name}"
        )


def remember(name: str, found: str, wanted: str, place: str) -> None:
    """Remembers where the weights are that a model refers to.

    Args:
        name: The name of the network in the model.
        found: The checksum of the weights there.
        wanted: The checksum that they must have.
        place: The name by which the user asks for them, with their place.
    """
    check_weights(name, found, wanted)
    _KNOWN[name, wanted] = parse_backbone(place)


def check_weights(name: str, found: str, expected: str) -> None:
    """Raises an error if the weights here are not those that are meant.

    Args:
        name: The name of the network.
        found: The checksum of the weights here.
        expected: The checksum of those that the run or the model has.
    """
    if found != expected:
        raise OfclError(
            f"the weights of '{name}' here have the checksum {found[:16]}, and those that were "
            f"learned from {expected[:16]}: get the same weights, and say where they are "
            "(--set weights=FILE for a run, --embedder for a model)"
        )


def _build(name: str, size: ModelSize) -> nn.Module:
    """Builds a pretrained network with a new head; draws from PyTorch's generator."""
    how = size.tuning or Tuning()
    backbone = parse_backbone(name).at(how.weights)
    if how.expected is not None and backbone.weights is None:
        backbone = _KNOWN.get((backbone.name, how.expected), backbone)
    loaded = _load(backbone)
    if how.expected is not None:
        check_weights(backbone.name, loaded.checksum, how.expected)
    network = copy.deepcopy(loaded.network)
    body, features = (_of_texts if backbone.takes == "text" else _of_images)(
        network, backbone, size, how
    )
    set_learning(network, how, backbone.name)
    head = nn.Linear(features, size.classes)
    return Adapted(body, head, _draws(body), referred=_frozen(body), recomputes=how.recompute)


def _of_images(
    network: nn.Module, backbone: Backbone, size: ModelSize, how: Tuning
) -> tuple[nn.Module, int]:
    """Makes a network of timm take the images of a run; gives also the number of features."""
    if len(size.shape) != 3:
        raise OfclError(f"'{backbone.name}' needs images; these samples have the shape "
                        f"{size.shape}")  # fmt: skip
    return sized(network, size.mean, size.std, how.side, backbone.name)


def _of_texts(
    network: nn.Module, backbone: Backbone, size: ModelSize, how: Tuning
) -> tuple[nn.Module, int]:
    """Makes an encoder take the token ids of a run; gives also the number of features."""
    if len(size.shape) != 1:
        raise OfclError(f"'{backbone.name}' needs texts; these samples have the shape "
                        f"{size.shape}: for images use timm:NAME")  # fmt: skip
    most = most_tokens(network)
    if most is not None and size.shape[0] > most:
        raise OfclError(f"'{backbone.name}' takes texts of at most {most} tokens, not "
                        f"{size.shape[0]}: --set tokens={most}")  # fmt: skip
    padding = find_tokeniser(backbone.name, backbone.weights).padding
    return TextNetwork(network, padding), int(network.config.hidden_size)  # type: ignore[union-attr,arg-type]


def _frozen(body: nn.Module) -> frozenset[str]:
    """Names the tensors of a body that never change, as its model calls them.

    BatchNorm's statistics are among them even where its weights learn: those of a few samples of
    one task are far worse than those of the pretraining (docs/pretrained.md).
    """
    parameters = {f"body.{n}" for n, p in body.named_parameters() if not p.requires_grad}
    return frozenset(parameters | {f"body.{n}" for n, _ in body.named_buffers()})


def _draws(body: nn.Module) -> bool:
    """Says whether a body draws random numbers in training: dropout, or paths that are dropped."""
    rates = [
        getattr(layer, name, 0.0) or 0.0
        for layer in body.modules()
        if "drop" in type(layer).__name__.lower()
        for name in ("p", "drop_prob", "prob")
    ]
    return any(isinstance(rate, float) and rate > 0 for rate in rates)


def _load(backbone: Backbone) -> Loaded:
    """Loads a network, or takes it from the last time: every client builds one."""
    changed = 0.0
    if backbone.weights is not None and os.path.exists(backbone.weights):
        changed = os.path.getmtime(backbone.weights)
    loaded = _cached(backbone, changed)
    _KNOWN[backbone.name, loaded.checksum] = backbone
    return loaded


@functools.lru_cache(maxsize=2)
def _cached(backbone: Backbone, changed: float) -> Loaded:
    """Loads a network; `changed` is the time of its file, so that a new file is read again."""
    state = torch.default_generator.get_state()
    try:
        load = load_transformer if backbone.takes == "text" else load_timm
        network = load(backbone).requires_grad_(False)
    finally:  # making a network draws weights, which are replaced
        torch.default_generator.set_state(state)
    return Loaded(network, checksum(network.state_dict()))
