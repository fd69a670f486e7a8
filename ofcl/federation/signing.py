"""Signatures of the server's messages: a party follows nothing that the server has not signed.

Flower tells a party that a message comes from the server; it does not prove it. So the server signs
every message with a key of its own (Ed25519), for the party that it is meant for. A party has the
public half in its folder. The signature covers the content, tensors included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ofcl.errors import OfclError
from ofcl.state import Flat, State, flatten

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PUBLIC = "server.pub"  # the server's public key, in a party's folder
FIELD = "signature"  # of a signed message


class Signer:
    """Signs messages as the server.

    Args:
        key: The server's private key, as PEM.
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        self._key: Ed25519PrivateKey = load_pem_private_key(key, None)  # type: ignore[assignment]
        # Tensors of the last message with their digests: the next party gets the same model.
        self._known: dict[int, tuple[Tensor, bytes]] = {}

    def signed(self, content: State | Flat, party: str) -> Flat:
        """Adds the signature to a message.

        Args:
            content: The message.
            party: The name of the party that it is meant for.

        Returns:
            The message with one more field.
        """
        flat = flatten(content)
        known = self._known
        self._known = {
            id(tensor): known.get(id(tensor)) or (tensor, _tensor_digest(tensor))
            for tensor in flat.tensors.values()
        }
        digests = {name: self._known[id(tensor)][1] for name, tensor in flat.tensors.items()}
        signature = self._key.sign(_digest(flat, party, digests)).hex()
        return Flat(flat.tensors, {**flat.tree, FIELD: signature})


class Verifier:
    """Opens messages that the server has signed for one party, and refuses all others.

    Args:
        key: The server's public key, as PEM.
        party: The name of the party.
    """

    def __init__(self, key: bytes, party: str) -> None:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        self._key: Ed25519PublicKey = load_pem_public_key(key)  # type: ignore[assignment]
        self._party = party

    @classmethod
    def of_folder(cls, folder: Path, party: str) -> Verifier:
        """Reads the server's public key in a party's folder.

        Args:
            folder: The party's folder.
            party: The name of the party.

        Raises:
            OfclError: If it is not there, or cannot be read.
        """
        path = folder / PUBLIC
        how = (
            "ask the organiser for server/signing.pub of the federation (the next "
            f"'ofcl federation start' there makes it if it is missing), and save it as {path}"
        )
        if not path.exists():
            raise OfclError(
                f"'{path}' is missing, by which requests of the server are known from those of "
                f"others: {how}"
            )
        try:
            return cls(path.read_bytes(), party)
        except ValueError:
            raise OfclError(f"'{path}' is no public key: {how}") from None

    def opened(self, message: State) -> State:
        """Checks the signature of a message, and gives the message without it.

        Args:
            message: The message that came.

        Raises:
            OfclError: If the server has not signed it for this party.
        """
        from cryptography.exceptions import InvalidSignature

        content = {name: value for name, value in message.items() if name != FIELD}
        try:
            signature = bytes.fromhex(message[FIELD])
            flat = flatten(content, copy=False)
            digests = {name: _tensor_digest(tensor) for name, tensor in flat.tensors.items()}
            self._key.verify(signature, _digest(flat, self._party, digests))
        except (InvalidSignature, KeyError, TypeError, ValueError):
            missing = "without a signature" if FIELD not in message else "with a wrong signature"
            raise OfclError(
                f"dropped a message {missing}: it is not from the server of this federation, and "
                "another party may have sent it. If the organiser has made new keys, put the new "
                f"server/signing.pub into this folder as {PUBLIC}"
            ) from None
        return content


def _tensor_digest(tensor: Tensor) -> bytes:
    """Computes the digest of a tensor's bytes."""
    return hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy().data).digest()


def _digest(flat: Flat, party: str, digests: Mapping[str, bytes]) -> bytes:
    """Computes the digest of a message for a party, which is signed.

    Args:
        flat: The message.
        party: The name of the party.
        digests: The digests of the message's tensors by name.
    """
    heads = [
        [name, str(tensor.dtype), list(tensor.shape), digests[name].hex()]
        for name, tensor in sorted(flat.tensors.items())
    ]
    about = {"party": party, "tree": flat.tree, "tensors": heads}
    return hashlib.sha256(b"ofcl message 2\n" + json.dumps(about, sort_keys=True).encode()).digest()
