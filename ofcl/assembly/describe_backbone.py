"""One line about a pretrained model when a run begins: what travels, how its steps are taken."""

from __future__ import annotations

import torch

from ofcl.models.backbone import find_bytes
from ofcl.pretrained.backbone_names import parse_backbone
from ofcl.server import Server
from ofcl.settings.schema import NAMES, Settings
from ofcl.state import nbytes


def describe_backbone(settings: Settings, server: Server) -> str:
    """Describes how a pretrained model learns; empty for other models.

    Args:
        settings: The run's settings, resolved.
        server: The server, which has the tensors that travel.
    """
    if settings.backbone is None:
        return ""
    whole = find_bytes(settings.model, settings.weights)
    name = parse_backbone(settings.model).name
    return (
        f"{name} ({settings.backbone[:16]}), tune = {settings.tune}: {_size(nbytes(server.model))} "
        f"travel, of a network of {_size(whole)}; {_steps(settings)}"
    )


def _steps(settings: Settings) -> str:
    """Says how gradient steps are taken."""
    if torch.device(settings.device).type != "cuda":
        return "gradient steps in float32, each by itself"
    if settings.recompute or settings.optimizer not in NAMES["optimizer"]:
        return f"gradient steps in {settings.precision}, each by itself"
    return f"gradient steps in {settings.precision}, replayed from captured graphs"


def _size(count: int) -> str:
    """Writes a number of bytes for people."""
    return f"{count / 1e6:.2f} MB" if count >= 10_000 else f"{count} bytes"
