"""Measures how fast texts become vectors on one core: batches of 32, and other ways.

    python scripts/embed_speed.py DATA_FOLDER [TEXTS]

DATA_FOLDER has the unpacked archive of 20 Newsgroups in it. The ways are batches by length, which
`ofcl` uses, the same in PyTorch's inference mode, and the same with products in bfloat16. All embed
the same texts by turns, in processor time, so that other work on the machine slows all alike.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from ofcl.data.files import embedders
from ofcl.data.files.embeddings import CHUNK
from ofcl.data.named.newsgroups import newsgroups

Vectors = Callable[[list[str]], np.ndarray]


def ways_of(encode: Vectors) -> dict[str, Vectors]:
    """Returns the ways of embedding by name, the plain one first.

    Args:
        encode: Embeds texts, in batches of the size that `embedders.batch_size` chooses.
    """
    by_length = embedders.batch_size

    def plain(texts: list[str]) -> np.ndarray:
        embedders.batch_size = lambda texts, tokens: 32
        vectors = encode(texts)
        embedders.batch_size = by_length
        return vectors

    def inference(texts: list[str]) -> np.ndarray:
        with torch.inference_mode():
            return encode(texts)

    def halved(texts: list[str]) -> np.ndarray:
        with torch.autocast("cpu", torch.bfloat16):
            return encode(texts)

    return {"batches of 32": plain, "batches by length": encode,
            "… in inference mode": inference, "… in bfloat16": halved}  # fmt: skip


def main(root: Path, count: int) -> None:
    """Prints texts a second of each way, and how far its vectors are from the plain way's.

    Args:
        root: The data folder.
        count: The number of texts.
    """
    torch.set_num_threads(1)
    samples = newsgroups(root).train.samples
    places = np.linspace(0, len(samples) - 1, count).astype(int)
    texts = sorted((samples[place] for place in places), key=len, reverse=True)
    ways = ways_of(embedders.load_encoder(embedders.find_embedder("minilm")))
    seconds, furthest = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    for way in ways.values():
        way(texts[:2])  # the first call is slower
    for start in range(0, len(texts), CHUNK):
        expected = None
        for name, way in ways.items():
            began = time.process_time()
            vectors = way(texts[start : start + CHUNK])
            seconds[name] += time.process_time() - began
            expected = vectors if expected is None else expected
            furthest[name] = max(furthest[name], float(np.abs(vectors - expected).max()))
    plain = seconds["batches of 32"]
    for name, taken in seconds.items():
        print(f"{name}: {count / taken:.1f} texts/s, {plain / taken:.2f} times, "
              f"off by {furthest[name]:.1e}")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
