"""Encryption of saved files with a key from a file (AES-256-GCM).

Without the key, an encrypted file shows its length and nothing else. If it is changed, decrypting
it fails.
"""

from __future__ import annotations

import os
from pathlib import Path

from ofcl.errors import OfclError
from ofcl.storage.private_files import others_can_read

KEY_BYTES = 32
NONCE_BYTES = 12


class Seal:
    """Encrypts bytes with a key, and decrypts them again.

    Args:
        key: The key, 32 bytes.

    Raises:
        OfclError: If the package `cryptography` is not installed.

    >>> seal = Seal(bytes(32))
    >>> seal.opened(seal.sealed(b"a sample"))
    b'a sample'
    """

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise OfclError("encryption needs: pip install 'ofcl[flower]'") from None
        self._cipher = AESGCM(key)

    @classmethod
    def from_file(cls, path: str | Path) -> Seal:
        """Makes a seal with the key in a file of 64 hexadecimal digits.

        Args:
            path: The path of the file, which nobody but its owner may read.

        Raises:
            OfclError: If the file does not exist, others may read it, or it does not contain a key.
        """
        path = Path(path)
        how = f"make one that only you can read: (umask 077; openssl rand -hex 32 > {path})"
        if not path.exists():
            raise OfclError(f"no key file '{path}'; {how}")
        if others_can_read(path):
            raise OfclError(f"others can read the key in '{path}': chmod 600 {path}")
        try:
            key = bytes.fromhex(path.read_text(encoding="ascii").strip())
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise OfclError(f"'{path}' does not hold a key of 64 hexadecimal digits; {how}")
        return cls(key)

    def sealed(self, content: bytes) -> bytes:
        """Encrypts bytes.

        Args:
            content: The bytes to encrypt.
        """
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, None)

    def opened(self, content: bytes) -> bytes:
        """Decrypts bytes that `sealed` has encrypted.

        Args:
            content: The encrypted bytes.

        Raises:
            ValueError: If they were encrypted with another key, or were changed.
        """
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], None)
        except InvalidTag:
            raise ValueError("it was sealed with another key, or was changed") from None
