"""The networks of embedders of images: loaded from a package, timm, transformers, or a file.

Each loader gives the network without its head, and the size and normalisation that it expects. No
weights are read that could run code.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ofcl.errors import OfclError
from ofcl.pretrained.backbone_names import LITE0, TIMM, TRANSFORMERS, parse_backbone
from ofcl.pretrained.hub_access import check_hub, is_downloaded
from ofcl.pretrained.image_networks import OFFLINE, load_timm
from ofcl.pretrained.timm_library import VISION_EXTRA
from ofcl.pretrained.weights import not_to_be_had

__all__ = ["ACCEPTED", "LITE0", "TIMM", "TRANSFORMERS", "load_network"]

ACCEPTED = (
    f"{LITE0}, {TIMM}NAME, {TIMM}NAME@FILE.safetensors, or {TRANSFORMERS}NAME (a vision model of "
    "transformers, or its folder)"
)


def load_network(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """Loads the network of an embedder.

    Args:
        name: One of the names in `ACCEPTED`.

    Returns:
        The network, and the `side`, `mean`, `std` and `interpolation` of the images it expects.

    Raises:
        OfclError: It cannot be had; the message says why, and what to do.
    """
    if name.startswith(TRANSFORMERS):
        return _of_transformers(name.removeprefix(TRANSFORMERS))
    if name != LITE0 and not name.startswith(TIMM):
        raise OfclError(f"'{name}' is no embedder of images; expected {ACCEPTED}")
    network = load_timm(parse_backbone(name))
    return network, _preprocessing(network)


def _preprocessing(network: nn.Module) -> dict[str, Any]:
    """Returns the size and normalisation that timm states for a network."""
    how: Any = network.pretrained_cfg
    interpolation = how["interpolation"] if how["interpolation"] == "bilinear" else "bicubic"
    return {
        "side": how["input_size"][1], "mean": how["mean"], "std": how["std"],
        "interpolation": interpolation,
    }  # fmt: skip


class _Pooled(nn.Module):
    """The features of a transformers vision model: its pooled output, or the mean over places."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        found = self.model(pixel_values=x)
        pooled: Tensor | None = getattr(found, "pooler_output", None)
        if pooled is None:
            places: Tensor = found.last_hidden_state
            pooled = places.mean(dim=1) if places.dim() == 3 else places.flatten(2).mean(dim=2)
        return pooled.flatten(1)


def _of_transformers(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """Loads a vision model of transformers, from the hub or a folder.

    Args:
        name: Its name on the hub, or its folder.
    """
    if importlib.util.find_spec("transformers") is None:
        raise OfclError(f"this embedder needs the package transformers; {VISION_EXTRA}")
    from transformers import AutoModel
    from transformers.image_processing_base import ImageProcessingMixin

    try:
        if not Path(name).expanduser().is_dir() and not is_downloaded(name):
            check_hub()
        where = str(Path(name).expanduser()) if Path(name).expanduser().is_dir() else name
        # Safetensors alone: other files of weights may run code when they are read.
        model = AutoModel.from_pretrained(where, use_safetensors=True, trust_remote_code=False)
        how, _ = ImageProcessingMixin.get_image_processor_dict(where)
    except Exception as error:  # of the hub, the network, the disk, the file format
        instead = f"{OFFLINE}, {TRANSFORMERS}FOLDER"
        raise not_to_be_had(f"{TRANSFORMERS}{name}", error, instead) from None
    size = how.get("crop_size") or how.get("size") or 224
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge") or 224
    facts = {
        "side": size, "mean": how.get("image_mean", (0.5,) * 3),
        "std": how.get("image_std", (0.5,) * 3),
        "interpolation": "bilinear" if how.get("resample") == 2 else "bicubic",
    }  # fmt: skip
    return _Pooled(model), facts
