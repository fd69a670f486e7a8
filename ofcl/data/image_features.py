"""Vectors of a dataset's images, by a pretrained network that is not trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ofcl.data.files.embeddings import CHUNK, CHUNK_OF_GPU, embed_images
from ofcl.data.files.image_embedders import ImageEmbedder
from ofcl.data.files.images import ImageReader
from ofcl.data.options import Progress, no_progress
from ofcl.data.sample_forms import ImageForm, embedded_form


@dataclass(frozen=True)
class ImageFeatures:
    """Turns images into vectors, chunk by chunk: only one chunk is decoded at a time.

    Every chunk is in the cache before the next one begins, so an interrupted run goes on there.

    Args:
        embedder: The network.
        root: The data folder, which contains the cache.
        shape: Channels, height and width of the images as they are read.
        track: Shows how many images are embedded.
        read: Reads image files; None: the samples are pixels.
    """

    embedder: ImageEmbedder
    root: Path
    shape: tuple[int, ...]
    track: Progress = no_progress
    read: ImageReader | None = None

    def __call__(self, samples: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes the vectors of images, or takes them from the cache.

        Args:
            samples: Image files, or pixels (n, channels, height, width) uint8.

        Returns:
            The vectors (n, d), and the indices of the images that could be read.
        """
        vectors = [np.empty((0, self.embedder.length), dtype=np.float32)]
        kept = [np.empty(0, dtype=np.int64)]
        size = CHUNK_OF_GPU if torch.cuda.is_available() else CHUNK
        # Counted image by image: after every `size` of them, and the last, they are embedded.
        shown = self.track(range(len(samples)), f"embedding {len(samples)} images")
        for n, _ in enumerate(shown, 1):
            if n % size and n < len(samples):
                continue
            first = (n - 1) // size * size
            chunk = samples[first:n]
            pixels, rows = np.asarray(chunk), np.arange(n - first)
            if self.read is not None:
                pixels, rows = self.read(list(chunk))
            vectors.append(embed_images(pixels, self.embedder, self.root))
            kept.append(rows + first)
        return np.concatenate(vectors), np.concatenate(kept)

    def form(self) -> ImageForm:
        """Describes the images, so that others can be read and embedded in the same way."""
        white = self.read.largest if self.read is not None else 0.0
        resized = self.read is not None
        return embedded_form(self.embedder, self.shape, resized=resized, white=white)
