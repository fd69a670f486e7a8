"""Weights of pretrained networks: the checksum by which they are known, and safe files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ofcl.errors import OfclError


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Computes the SHA-256 of weights: of their names, types, shapes and values.

    Args:
        tensors: The weights by name, on the CPU.
    """
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
        digest.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def read_safetensors(path: str) -> dict[str, Tensor]:
    """Reads the tensors of a file, which runs no code.

    Args:
        path: A safetensors file.

    Raises:
        OfclError: If it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(Path(path).expanduser())
    except (OSError, SafetensorError) as error:
        raise OfclError(f"'{path}' cannot be read as safetensors ({error})") from None
    return tensors


def not_to_be_had(name: str, error: Exception, instead: str) -> OfclError:
    """Makes the error about weights that cannot be loaded.

    Args:
        name: The name of the network.
        error: The reason.
        instead: What works without network.
    """
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    return OfclError(
        f"the weights of '{name}' cannot be had ({reason}). Without network: {instead}"
    )
