"""Certificates and keys: an authority for one federation, its server, and a key for each party."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ofcl.engines.flower.records import EXTRA
from ofcl.errors import OfclError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

YEARS = 10  # for which the authority's certificate is valid
DAYS = 825  # for which the server's certificate is valid


@dataclass(frozen=True)
class Certified:
    """A private key and the certificate for it.

    Args:
        key: The private key, as PEM.
        certificate: The certificate, as PEM.
    """

    key: bytes
    certificate: bytes


@dataclass(frozen=True)
class PartyKey:
    """A party's key pair in OpenSSH's form, as Flower reads it.

    Args:
        private: The private key.
        public: The public key.
    """

    private: bytes
    public: bytes


def make_authority(name: str) -> Certified:
    """Makes the certificate authority of one federation, with a self-signed certificate.

    Args:
        name: The name of the federation.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise OfclError(EXTRA) from None
    key = ec.generate_private_key(ec.SECP384R1())
    issuer = _distinguished_name(f"{name} (authority)")
    certificate = (
        _builder(issuer, issuer, key.public_key(), 365 * YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )
    return _signed(certificate, key, key)


def certify(authority: Certified, hosts: Sequence[str]) -> Certified:
    """Makes a private key for a server, and a certificate for the key.

    Args:
        authority: The authority that signs the certificate.
        hosts: The names and addresses of the server.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP384R1())
    signing = load_pem_private_key(authority.key, None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.certificate).subject
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    certificate = (
        _builder(_distinguished_name(hosts[0]), issuer, key.public_key(), DAYS)
        .add_extension(x509.SubjectAlternativeName(list(map(_alternative, hosts))), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return _signed(certificate, key, signing)


def days_left(certificate: bytes) -> int:
    """Counts the days until a certificate expires; negative if it has expired.

    Args:
        certificate: The certificate, as PEM.
    """
    from cryptography import x509

    until = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return (until - datetime.datetime.now(datetime.UTC)).days


def _distinguished_name(common: str) -> x509.Name:
    """Makes the X.509 name with a common name."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    """Begins a certificate.

    Args:
        subject: Whose certificate it is.
        issuer: Who will sign it.
        public: The public key that it is for.
        days: The number of days, from now on, for which it is valid.
    """
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(signs: bool) -> x509.KeyUsage:
    """Makes a certificate's note of what its key is for: to sign others (`signs`), or a server."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=signs, crl_sign=signs,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _alternative(host: str) -> x509.GeneralName:
    """Makes the entry of a certificate for a host, which is an IP address or a DNS name."""
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    certificate: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signing: ec.EllipticCurvePrivateKey,
) -> Certified:
    """Signs a certificate, and gives it together with its own private key.

    Args:
        certificate: The certificate without a signature.
        key: The private key that the certificate is for.
        signing: The private key of the authority, which signs.
    """
    from cryptography.hazmat.primitives import hashes, serialization

    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certified(private, certificate.sign(signing, hashes.SHA384()).public_bytes(pem))


def make_signing_key() -> tuple[bytes, bytes]:
    """Makes the key pair with which a server signs its messages (Ed25519), both halves as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, pem = Ed25519PrivateKey.generate(), serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public


def make_party_key() -> PartyKey:
    """Makes a new key pair for a party."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return PartyKey(private, public + b"\n")
