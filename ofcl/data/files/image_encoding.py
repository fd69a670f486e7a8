"""Encoding of images by a pretrained network: resized, normalised, in batches, as vectors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ofcl.data.files.image_embedders import ImageEmbedder, LoadedEmbedder

AT_ONCE_ON_CPU = 8  # images; the activations of more do not fit its cache
AT_ONCE_ON_GPU = 256


@torch.no_grad()
def encode_images(loaded: LoadedEmbedder, images: np.ndarray) -> np.ndarray:
    """Computes the vectors (n, d) of images, each of length 1.

    Args:
        loaded: The embedder.
        images: Images (n, 1 or 3, height, width) uint8.
    """
    device = next(loaded.network.parameters()).device
    pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device)
    parts = torch.split(pixels, AT_ONCE_ON_CPU if device.type == "cpu" else AT_ONCE_ON_GPU)
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
