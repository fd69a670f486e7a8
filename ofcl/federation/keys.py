"""Certificates and keys: an authority for one federation, its server, and a key for each party."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from ofcl.engines.flower_records import EXTRA
from ofcl.errors import OfclError

YEARS = 10  # that the authority lasts
DAYS = 825  # that the server's certificate lasts


@dataclass(frozen=True)
class Authority:
    """An authority and the server that it vouches for; all as PEM."""

    key: bytes
    certificate: bytes
    server_key: bytes
    server_certificate: bytes


@dataclass(frozen=True)
class PartyKey:
    """A key pair in OpenSSH's form, as Flower reads it."""

    private: bytes
    public: bytes


def make_authority(name: str, hosts: Sequence[str]) -> Authority:
    """An authority, and a certificate for a server of these names and addresses."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
    except ImportError:
        raise OfclError(EXTRA) from None
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))

    def named(common: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])

    def begun(
        subject: str, public: ec.EllipticCurvePublicKey, days: int
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named(f"{name} (authority)"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    def usage(signs: bool) -> x509.KeyUsage:
        return x509.KeyUsage(
            digital_signature=not signs, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=signs, crl_sign=signs,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip

    def alternative(host: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            return x509.DNSName(host)

    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = (
        begun(f"{name} (authority)", ca_key.public_key(), 365 * YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA384())
    )
    server = (
        begun(hosts[0], key.public_key(), DAYS)
        .add_extension(x509.SubjectAlternativeName(list(map(alternative, hosts))), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .sign(ca_key, hashes.SHA384())
    )

    def pem(private: ec.EllipticCurvePrivateKey) -> bytes:
        return private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    encoding = serialization.Encoding.PEM
    return Authority(pem(ca_key), certificate.public_bytes(encoding), pem(key),
                     server.public_bytes(encoding))  # fmt: skip


def make_party_key() -> PartyKey:
    """A new key pair of a party."""
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
