"""Measures how fast texts become vectors on one core: batches of 32, and other ways.

    python scripts/embed_speed.py DATA_FOLDER [TEXTS]

DATA_FOLDER has the unpacked archive of 20 Newsgroups in it. The ways are batches by length, which
`ofcl` uses, the same in PyTorch's inference mode, and with products in bfloat16 and float16. All
embed the same texts by turns, in processor time, so that other work on the machine slows all alike.
At the end it says how near the network is to the speed of plain products of matrices of its sizes:
no way of calling it with 32 bits is faster than those.
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

WIDTH, LAYERS, TOKENS = 384, 6, 256  # of all-MiniLM-L6-v2, and of a text that is cut
PRODUCTS = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))  # a layer

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

    def halved(numbers: torch.dtype) -> Vectors:
        def way(texts: list[str]) -> np.ndarray:
            with torch.autocast("cpu", numbers):
                return encode(texts)

        return way

    return {"batches of 32": plain, "batches by length": encode, "… in inference mode": inference,
            "… in bfloat16": halved(torch.bfloat16),
            "… in float16": halved(torch.float16)}  # fmt: skip


def rate(work: Callable[[], int]) -> float:
    """Returns the operations a second, in thousand millions, of work that returns their number."""
    began = time.process_time()
    done = work()
    return done / (time.process_time() - began) / 1e9


def share_of_the_processor(encode: Vectors) -> tuple[float, float]:
    """Returns the rates of the network and of plain products of its sizes, both the best of three.

    Args:
        encode: Embeds texts.
    """
    texts = ["some words of which there are more than fit into a text " * 40] * 16
    factors = [(torch.randn(4 * TOKENS, a), torch.randn(b, a)) for a, b in PRODUCTS]

    def network() -> int:
        encode(texts)
        attention = 4 * TOKENS * WIDTH  # of each token: scores and weighted values
        each = LAYERS * (sum(2 * a * b for a, b in PRODUCTS) + attention)
        return len(texts) * TOKENS * each

    def products() -> int:
        for _ in range(20):
            for x, weights in factors:
                torch.nn.functional.linear(x, weights)
        return 20 * sum(2 * len(x) * weights.numel() for x, weights in factors)

    turns = [(rate(network), rate(products)) for _ in range(3)]
    return max(one for one, _ in turns), max(other for _, other in turns)


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
    encode = embedders.load_encoder(embedders.find_embedder("minilm"))
    ways = ways_of(encode)
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
    network, products = share_of_the_processor(encode)
    print(f"the network: {network:.0f} GFLOP/s; products of its matrices alone: {products:.0f}; "
          f"at most {products / network:.2f} times is left at 32 bits")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
