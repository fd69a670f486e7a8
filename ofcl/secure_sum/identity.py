"""Identities of parties in a secure sum: they sign the keys of a sum with their own keys.

A party's key is the one by which the server knows it (ECDSA, P-384). The other parties have its
public half in their folders, so the server cannot put keys of its own into a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ofcl.errors import OfclError

PEERS = "peers"  # the folder, in a party's folder, with the public keys of all parties


@dataclass(frozen=True)
class Identity:
    """A party's private key, and the public keys of all parties.

    Args:
        party: The name of the party.
        private: Its private key in OpenSSH's form.
        peers: The public keys of the parties in OpenSSH's form, by name.
    """

    party: str
    private: bytes
    peers: Mapping[str, bytes]

    @classmethod
    def of_folder(cls, folder: Path, party: str) -> Identity:
        """Reads the keys in a party's folder.

        Args:
            folder: The party's folder.
            party: The name of the party.
        """
        found = sorted((folder / PEERS).glob("*.pub"))
        peers = {path.name.removesuffix(".pub"): path.read_bytes() for path in found}
        return cls(party, (folder / "key").read_bytes(), peers)

    def signed(self, text: str) -> bytes:
        """Signs a text.

        Args:
            text: The text.
        """
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_ssh_private_key

        key = load_ssh_private_key(self.private, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise OfclError(f"the key of {self.party} cannot sign: an ECDSA key is needed")
        return key.sign(text.encode(), ec.ECDSA(hashes.SHA384()))

    def check(self, party: str, text: str, signature: bytes) -> None:
        """Checks a party's signature of a text.

        Args:
            party: The name of the party that is said to have signed.
            text: The text.
            signature: The signature.

        Raises:
            OfclError: If the party's public key is not known here, or the signature is not its own.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_ssh_public_key

        if party not in self.peers:
            raise OfclError(
                f"the public key of {party} is not here, so nobody can say whether its masks are "
                f"its own: ask {party} or the organiser for it, and put it into "
                f"{PEERS}/{party}.pub in the folder of {self.party}"
            )
        key = load_ssh_public_key(self.peers[party])
        try:
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise InvalidSignature
            key.verify(signature, text.encode(), ec.ECDSA(hashes.SHA384()))
        except InvalidSignature:
            raise OfclError(f"keys came that {party} has not signed; the sum is refused") from None
