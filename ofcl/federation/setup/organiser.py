"""The organiser's work: makes a federation, adds and removes parties, renews certificates."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ofcl.errors import OfclError, unknown
from ofcl.federation.party_side.party_policy import FILE as POLICY_FILE
from ofcl.federation.party_side.party_policy import USUAL
from ofcl.federation.setup.folders import FILE, PARTY_FILE, Federation, load_server
from ofcl.federation.setup.keys import (
    Certified,
    certify,
    make_authority,
    make_party_key,
    make_signing_key,
)
from ofcl.federation.setup.party_readme import party_readme
from ofcl.federation.signing import PUBLIC
from ofcl.secure_sum.identity import PEERS
from ofcl.settings.files import to_toml
from ofcl.storage.atomic_files import write_whole
from ofcl.storage.locks import wait_for_lock

RESERVED = {"authority", "server", "runs"}  # folders of a federation: no names for parties


def create(folder: Path, federation: Federation) -> None:
    """Makes the folder of a federation, with all keys and a folder for each party.

    Args:
        folder: The folder to be made.
        federation: The parties, and where the server is.

    Raises:
        OfclError: If the folder has files already, or a name or host cannot be used.
    """
    _check(federation)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OfclError(f"'{folder}' exists; a federation is made in a new folder")
    for part in ("authority", "server/keys"):
        (folder / part).mkdir(parents=True)
        (folder / part.split("/")[0]).chmod(0o700)
    authority = make_authority(federation.name)
    _write_secret(folder / "authority" / "ca.key", authority.key)
    _write_public(folder / "authority" / "ca.crt", authority.certificate)
    _write_public(folder / "server" / "ca.crt", authority.certificate)
    _certify_server(folder, authority, federation.hosts)
    _write_secret(folder / "server" / "admin.token", secrets.token_urlsafe(32).encode())
    _write_secret(folder / "server" / "executor.secret", secrets.token_hex(32).encode())
    _make_signing_key(folder)
    for party in federation.parties:
        _enrol(folder, federation, party)
    _introduce(folder, federation)
    _save(folder, federation)


def add_party(folder: Path, party: str) -> None:
    """Makes the folder and the key of one more party, which takes part in runs from now on.

    Args:
        folder: The folder of the federation.
        party: The name of the new party.

    Raises:
        OfclError: If the name cannot be used, or is taken.
    """
    ensure_signing_key(folder)
    with _changing(folder) as federation:
        if party in federation.left:
            raise OfclError(f"'{party}' has left '{federation.name}'; give it another name")
        larger = replace(federation, parties=(*federation.parties, party))
        _check(larger)
        if (folder / party).exists():
            raise OfclError(f"'{folder / party}' exists")
        _enrol(folder, larger, party)
        _introduce(folder, larger)
        _save(folder, larger)


def remove_party(folder: Path, party: str) -> None:
    """Removes a party: the server refuses its key, and no run waits for it any more.

    Args:
        folder: The folder of the federation.
        party: The name of the party.

    Raises:
        OfclError: If no such party takes part, or it is the only one.
    """
    with _changing(folder) as federation:
        if party not in federation.present:
            raise unknown("party", party, federation.present)
        if len(federation.present) == 1:
            raise OfclError(f"'{party}' is the only party of '{federation.name}'")
        _save(folder, replace(federation, left=(*federation.left, party)))
        (folder / "server" / "keys" / f"{party}.pub").unlink(missing_ok=True)


def renew(folder: Path, hosts: Sequence[str] = ()) -> None:
    """Makes a new key and certificate for the server.

    Args:
        folder: The folder of the federation.
        hosts: New names and addresses of the server; empty: they stay as they are.

    Raises:
        OfclError: If the folder of the authority is missing, or the parties know another authority.
    """
    with _changing(folder) as federation:
        known = load_server(folder).authority.read_bytes()
        paths = [folder / "authority" / name for name in ("ca.key", "ca.crt")]
        if not all(path.exists() for path in paths):
            raise OfclError(
                f"'{folder / 'authority'}' is not here, and it signs certificates; bring it back "
                "from where it was put away"
            )
        authority = Certified(*(path.read_bytes() for path in paths))
        if authority.certificate != known:
            raise OfclError(
                f"'{folder / 'authority'}' is not the one that the parties were handed; they would "
                "refuse the server"
            )
        if hosts:
            federation = replace(federation, hosts=tuple(hosts))
            _check(federation)
        _certify_server(folder, authority, federation.hosts)
        if hosts:
            _save(folder, federation)


def ensure_signing_key(folder: Path) -> str | None:
    """Makes the key with which the server signs its messages, if an earlier version made none.

    Folders of parties that are still here get the public half.

    Args:
        folder: The folder of the federation.

    Returns:
        A remark for the organiser; None: the key was there.
    """
    server = load_server(folder)
    if server.signing_key.exists():
        return None
    with _changing(folder) as federation:
        _make_signing_key(folder)
        for party in filter(lambda party: (folder / party).is_dir(), federation.present):
            _write_public(folder / party / PUBLIC, server.signing_public.read_bytes())
    return (
        f"the server signs its requests from now on: give '{server.signing_public}' to every party "
        f"whose folder is elsewhere. It saves it as {PUBLIC} in its folder, and starts again"
    )


def _make_signing_key(folder: Path) -> None:
    """Makes the key with which the server signs its messages."""
    private, public = make_signing_key()
    _write_public(folder / "server" / "signing.pub", public)
    _write_secret(folder / "server" / "signing.key", private)


@contextmanager
def _changing(folder: Path) -> Iterator[Federation]:
    """Gives the federation, and keeps other processes from changing it within the context."""
    load_server(folder)  # raises if the folder is not a federation
    path = folder / "server" / "changing.lock"
    with wait_for_lock(path):
        _hand_over(path)
        yield load_server(folder).federation


def _certify_server(folder: Path, authority: Certified, hosts: Sequence[str]) -> None:
    """Makes the server's key and certificate, and writes both to the server's folder.

    Both are written under other names and then renamed, so that neither is ever half written.

    Args:
        folder: The folder of the federation.
        authority: Signs the certificate.
        hosts: The names and addresses of the server.
    """
    loopback = [host for host in ("localhost", "127.0.0.1") if host not in hosts]
    certified, server = certify(authority, [*hosts, *loopback]), folder / "server"
    (server / "server.key.new").unlink(missing_ok=True)
    _write_secret(server / "server.key.new", certified.key)
    _write_public(server / "server.crt.new", certified.certificate)
    for name in ("server.key", "server.crt"):
        (server / f"{name}.new").replace(server / name)


def _enrol(folder: Path, federation: Federation, party: str) -> None:
    """Makes a party's folder with its files, and saves the party's public key at the server."""
    (folder / party).mkdir(mode=0o700)
    key = make_party_key()
    _write_secret(folder / party / "key", key.private)
    _write_public(folder / "server" / "keys" / f"{party}.pub", key.public)
    public = (folder / "server" / "signing.pub").read_bytes()
    _write_public(folder / party / PUBLIC, public)
    _write_public(folder / party / "ca.crt", (folder / "server" / "ca.crt").read_bytes())
    values = {"federation": federation.name, "party": party,
              "number": federation.parties.index(party), "server": federation.address}  # fmt: skip
    _write_public(folder / party / PARTY_FILE, to_toml(values).encode())
    _write_public(folder / party / POLICY_FILE, USUAL.encode())
    _write_public(folder / party / "README.md", party_readme(federation, party).encode())


def _introduce(folder: Path, federation: Federation) -> None:
    """Puts the public keys of all parties into the folder of each, for secure aggregation.

    A folder that was handed out and is not here any more is left alone.
    """
    known = {party: folder / "server" / "keys" / f"{party}.pub" for party in federation.present}
    for party in filter(lambda party: (folder / party).is_dir(), federation.present):
        (folder / party / PEERS).mkdir(mode=0o755, exist_ok=True)
        for peer, key in known.items():
            if key.exists():
                _write_public(folder / party / PEERS / f"{peer}.pub", key.read_bytes())


def _save(folder: Path, federation: Federation) -> None:
    """Writes the file of the federation."""
    values = {"name": federation.name, "parties": list(federation.parties),
              "hosts": list(federation.hosts), "port": federation.port,
              "left": list(federation.left)}  # fmt: skip
    write_whole(folder / FILE, to_toml(values))
    (folder / FILE).chmod(0o644)
    _hand_over(folder / FILE)


def _write_secret(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    _hand_over(path)


def _write_public(path: Path, content: bytes) -> None:
    """Writes a file that everybody may read."""
    path.write_bytes(content)
    path.chmod(0o644)
    _hand_over(path)


def _hand_over(path: Path) -> None:
    """Gives a file to its folder's owner: root may have written it for the server's account."""
    owner = path.parent.stat()
    if owner.st_uid != path.stat().st_uid:
        os.chown(path, owner.st_uid, owner.st_gid)


def _check(federation: Federation) -> None:
    """Raises an error if there are no parties, or if the name of a party or host cannot be used."""
    if not federation.parties:
        raise OfclError("a federation needs parties: --clients hospital-a,hospital-b")
    seen: dict[str, str] = {}
    for party in federation.parties:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", party):
            raise OfclError(
                f"'{party}' cannot name a party: letters, digits, '.', '_' and '-' can, and it "
                "becomes a folder"
            )
        if party.lower() in RESERVED:
            raise OfclError(f"a party cannot be called '{party}'; call it something else")
        if party.lower() in seen:
            raise OfclError(f"'{party}' and '{seen[party.lower()]}' are the same name")
        seen[party.lower()] = party
    for host in federation.hosts:
        if not re.fullmatch(r"[A-Za-z0-9._:-]{1,253}", host):
            raise OfclError(f"'{host}' is not a name or address; give it without https:// and port")
