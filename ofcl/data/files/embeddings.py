"""Embeddings of texts and images, cached on disk so that no sample is embedded twice.

The cache is one SQLite file for each model, `embeddings/<model>.sqlite` in the data folder. It maps
the hash of a sample (prefix and text, or shape and pixels) to its vector. It is written every few
samples. So an interrupted run continues where it was, and two runs can share the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ofcl.data.files.embedders import Embedder, find_embedder, load_encoder
from ofcl.data.files.image_embedders import ImageEmbedder, load_image_embedder
from ofcl.data.files.image_encoding import encode_images
from ofcl.data.options import Progress, no_progress
from ofcl.errors import OfclError

CHUNK = 64  # samples that are embedded between two writes to the cache
CHUNK_OF_GPU = 512  # images; a GPU embeds them in the time that a write takes


def embed(
    texts: Sequence[str], embedder: str | Embedder, root: Path, track: Progress = no_progress
) -> np.ndarray:
    """Returns the vectors (n, d) of texts; only texts that are not in the cache are embedded.

    Args:
        texts: The texts.
        embedder: The model, or a name that `find_embedder` knows.
        root: The data folder, which contains the cache.
        track: Shows how many texts are embedded.
    """
    chosen = find_embedder(embedder) if isinstance(embedder, str) else embedder
    keys = [_key(chosen.prefix + text) for text in texts]
    with _cache(root / "embeddings", chosen) as cache:
        known = _look_up(cache, keys)
        # Long texts first: a batch has texts of one length, and time left is never underestimated.
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        order = sorted(missing, key=lambda key: -len(missing[key]))
        if order:
            encode = load_encoder(chosen)
            # Counted text by text: after every CHUNK of them, and the last, they are embedded.
            for n, _ in enumerate(track(order, f"embedding {len(order)} texts"), 1):
                if n % CHUNK and n < len(order):
                    continue
                chunk = order[(n - 1) // CHUNK * CHUNK : n]
                vectors = encode([chosen.prefix + missing[key] for key in chunk])
                rows = [(key, v.tobytes()) for key, v in zip(chunk, vectors, strict=True)]
                with cache:
                    cache.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
                known |= dict(rows)
    return np.stack([np.frombuffer(known[key], dtype=np.float32) for key in keys])


def embed_images(images: np.ndarray, embedder: ImageEmbedder, root: Path) -> np.ndarray:
    """Returns the vectors (n, d) of images; only images that are not in the cache are embedded.

    Args:
        images: Images (n, 1 or 3, height, width) uint8; a chunk, as all are embedded at once.
        embedder: The embedder; its name must load these very weights.
        root: The data folder, which contains the cache.
    """
    if not len(images):
        return np.empty((0, embedder.length), dtype=np.float32)
    keys = [_image_key(image) for image in images]
    with _cache(root / "embeddings", embedder) as cache:
        known = _look_up(cache, keys)
        missing = {key: row for row, key in enumerate(keys) if key not in known}
        if missing:
            vectors = encode_images(load_image_embedder(embedder.name), images[[*missing.values()]])
            rows = [(key, v.tobytes()) for key, v in zip(missing, vectors, strict=True)]
            with cache:
                cache.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
            known |= dict(rows)
    return np.stack([np.frombuffer(known[key], dtype=np.float32) for key in keys])


def _image_key(image: np.ndarray) -> bytes:
    """Computes the key of an image in the cache: a hash of its shape and pixels."""
    digest = hashlib.sha256(str(image.shape).encode())
    digest.update(np.ascontiguousarray(image).tobytes())
    return digest.digest()


def cached_vectors(texts: Sequence[str], embedder: str, root: Path) -> list[np.ndarray | None]:
    """Returns the vectors of texts that are in the cache; embeds nothing.

    Args:
        texts: The texts.
        embedder: A name that `find_embedder` knows.
        root: The data folder, which contains the cache.

    Returns:
        The vector of each text; None for texts that are not in the cache.
    """
    chosen = find_embedder(embedder)
    keys = [_key(chosen.prefix + text) for text in texts]
    with _cache(root / "embeddings", chosen) as cache:
        known = _look_up(cache, keys)
    return [np.frombuffer(known[k], dtype=np.float32) if k in known else None for k in keys]


def _key(text: str) -> bytes:
    """Computes the key of a model's input in the cache: a hash."""
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()


@contextlib.contextmanager
def _cache(folder: Path, embedder: Embedder | ImageEmbedder) -> Iterator[sqlite3.Connection]:
    """Opens the cache of one model for a `with` block.

    The name of its file depends on the model, its version and how samples are prepared for it:
    models with different vectors have different files.

    Args:
        folder: The folder of all caches.
        embedder: The model.

    Raises:
        OfclError: The file cannot be used.
    """
    if isinstance(embedder, ImageEmbedder):
        identity = str(replace(embedder, name=""))  # its weights' checksum says which one it is
        short = re.sub(r"[^\w.-]+", "-", os.path.basename(embedder.name))
    else:
        # The version of a folder is the digest of its files: they may be moved to another folder.
        model = embedder.version if os.path.isabs(embedder.model) else embedder.model
        identity = f"{model}|{embedder.version}|{embedder.prefix}|{embedder.tokens}"
        short = re.sub(r"[^\w.-]+", "-", os.path.basename(embedder.model))
    path = folder / f"{short}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.sqlite"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        cache = sqlite3.connect(path, timeout=60)
        with cache:
            cache.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)")
    except (OSError, sqlite3.Error) as error:
        raise OfclError(
            f"the embeddings cannot be kept in '{path}' ({error}); choose another data folder with "
            "--data-root, or delete the file if it is damaged"
        ) from None
    try:
        yield cache
    except sqlite3.Error as error:
        raise OfclError(f"'{path}' cannot be used ({error}); delete it to embed anew") from None
    finally:
        cache.close()


def _look_up(cache: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Looks vectors up in the cache.

    Args:
        cache: The opened cache.
        keys: The keys of the texts.

    Returns:
        The vectors as bytes, by key; keys that are not in the cache are left out.
    """
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), 500):  # SQLite takes only so many at once
        part = keys[start : start + 500]
        marks = ",".join("?" * len(part))
        found |= cache.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
    return found
