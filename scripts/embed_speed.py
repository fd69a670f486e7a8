"""Measures how fast texts become vectors on one core: batches of 32, and batches by length.

    python scripts/embed_speed.py DATA_FOLDER

DATA_FOLDER has the unpacked archive of 20 Newsgroups in it. Both ways embed the same texts
by turns, so that other work on the machine slows both.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch

from ofcl.data.files import embedders
from ofcl.data.files.embeddings import CHUNK
from ofcl.data.named.newsgroups import newsgroups

TEXTS = 1000


def main(root: Path) -> None:
    """Prints texts a second of both ways, and how far their vectors differ.

    Args:
        root: The data folder.
    """
    torch.set_num_threads(1)
    samples = newsgroups(root).train.samples
    places = np.linspace(0, len(samples) - 1, TEXTS).astype(int)
    texts = sorted((samples[place] for place in places), key=len, reverse=True)
    encode = embedders.load_encoder(embedders.find_embedder("minilm"))
    by_length = embedders.batch_size
    ways = {"batches of 32": lambda texts, tokens: 32, "batches by length": by_length}
    seconds = dict.fromkeys(ways, 0.0)
    furthest = 0.0
    encode(texts[:8])  # the first call is slower
    for start in range(0, len(texts), CHUNK):
        vectors = []
        for name, way in ways.items():
            embedders.batch_size = way
            began = time.process_time()
            vectors.append(encode(texts[start : start + CHUNK]))
            seconds[name] += time.process_time() - began
        furthest = max(furthest, float(np.abs(vectors[0] - vectors[1]).max()))
    for name, taken in seconds.items():
        print(f"{name}: {TEXTS / taken:.1f} texts/s")
    before, now = seconds.values()
    print(f"ratio {before / now:.2f}, vectors differ by {furthest:.1e} at most")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
