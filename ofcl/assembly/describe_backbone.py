"""One line about a pretrained model when a run begins: what of it learns and travels."""

from __future__ import annotations

from ofcl.models.backbone import find_bytes
from ofcl.pretrained.backbone_names import parse_backbone
from ofcl.server import Server
from ofcl.settings.schema import Settings
from ofcl.state import nbytes


def describe_backbone(settings: Settings, server: Server) -> str:
    """Describes what of a pretrained model learns; empty for other models.

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
        f"travel, of a network of {_size(whole)}"
    )


def _size(count: int) -> str:
    """Writes a number of bytes for people."""
    return f"{count / 1e6:.2f} MB" if count >= 10_000 else f"{count} bytes"
