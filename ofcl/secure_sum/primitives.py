"""Cryptographic primitives of secure aggregation: every call of the library `cryptography`.

The library comes with the extra `flower`, so it is imported when a function is called.
"""

from __future__ import annotations

import os

from ofcl.errors import OfclError

SECRET = 32  # bytes of a key or a seed
_NONCE = 12  # bytes


def new_secret() -> bytes:
    """Draws a key or a seed from the operating system's generator."""
    return os.urandom(SECRET)


def public_of(private: bytes) -> bytes:
    """Computes the X25519 public key of a private key.

    Args:
        private: The private key, 32 bytes.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, public: bytes, purpose: str) -> bytes:
    """Computes the secret that two parties share, by X25519 and HKDF.

    Args:
        private: The own private key.
        public: The other party's public key.
        purpose: What the secret is for; another purpose gives another secret.

    Raises:
        OfclError: If the public key is none.
    """
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        key = X25519PrivateKey.from_private_bytes(private)
        shared = key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise OfclError("a public key of secure aggregation cannot be used") from None
    return HKDF(hashes.SHA256(), SECRET, salt=None, info=purpose.encode()).derive(shared)


def stream(seed: bytes, length: int) -> bytes:
    """Stretches a seed to as many bytes as are wanted, by ChaCha20.

    Args:
        seed: The seed, 32 bytes, which is used for one stream alone.
        length: The number of bytes.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    return Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(length))


def encrypt(key: bytes, content: bytes, about: str) -> bytes:
    """Encrypts and authenticates bytes by ChaCha20-Poly1305.

    Args:
        key: The key, 32 bytes.
        content: The bytes.
        about: Who sends them to whom in which sum; decryption fails for any other text.
    """
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = os.urandom(_NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, about.encode())


def decrypt(key: bytes, content: bytes, about: str) -> bytes:
    """Decrypts what `encrypt` has made.

    Args:
        key: The key, 32 bytes.
        content: The encrypted bytes.
        about: The text that was given to `encrypt`.

    Raises:
        OfclError: If the bytes were changed, or made with another key or for another purpose.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(content[:_NONCE], content[_NONCE:], about.encode())
    except (InvalidTag, ValueError):
        raise OfclError("it was not encrypted for this party and this sum") from None
