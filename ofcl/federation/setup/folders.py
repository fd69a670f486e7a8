"""The folders of a federation: which files the organiser, the server and the parties have.

federation.toml        name, parties, who has left, address; no secrets
authority/             the key that signs certificates; only the organiser needs it
server/                certificate and keys of the server, the parties' public keys, tokens
<party>/               handed to that party: its key, the server's public key, a README
runs/                  the run directories, at the server
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ofcl.errors import OfclError
from ofcl.federation.setup.keys import days_left
from ofcl.storage.locks import try_lock
from ofcl.storage.private_files import others_can_read

FILE = "federation.toml"
PARTY_FILE = "party.toml"
RENEW_BEFORE = 60  # days before it expires, the server's certificate should be renewed


@dataclass(frozen=True)
class Federation:
    """The parties of a federation, and where its server is.

    Args:
        name: The name of the federation.
        parties: The names of all parties, also of those that have left. A party's place in this
            list is its number.
        hosts: Names and addresses by which parties reach the server.
        port: The server's port.
        left: The parties that do not take part any more.
    """

    name: str
    parties: tuple[str, ...]
    hosts: tuple[str, ...]
    port: int
    left: tuple[str, ...] = ()

    @property
    def present(self) -> tuple[str, ...]:
        """The parties that take part."""
        return tuple(party for party in self.parties if party not in self.left)

    @property
    def gone(self) -> frozenset[int]:
        """The numbers of the parties that have left; a new party never gets one of them."""
        return frozenset(map(self.parties.index, self.left))

    @property
    def address(self) -> str:
        """The host and port at which parties find the server."""
        return f"{bracketed(self.hosts[0])}:{self.port}"


@dataclass(frozen=True)
class ServerFolder:
    """The paths of the files that the server needs, and of those that it writes.

    Args:
        folder: The folder of the federation.
        federation: The federation, as its file says at the moment.
    """

    folder: Path
    federation: Federation

    @property
    def _server(self) -> Path:
        """The folder of the server's files."""
        return self.folder / "server"

    @property
    def here(self) -> str:
        """The host and port at which commands on the server's own machine reach it."""
        host = self._listening.read_text("ascii") if self._listening.exists() else "127.0.0.1"
        return f"{bracketed(host)}:{self.federation.port}"

    @property
    def _listening(self) -> Path:
        """The file with the address that the server listens on."""
        return self._server / "listening"

    def listen_on(self, host: str) -> None:
        """Notes at which address commands on the same machine reach the server.

        Args:
            host: The address that the server listens on.

        Raises:
            OfclError: If the server's certificate is not for this host.
        """
        everywhere = host in ("0.0.0.0", "::")
        known = everywhere or is_loopback(host) or host in self.federation.hosts
        if not known:
            raise OfclError(
                f"the certificate is not for '{host}', but for {', '.join(self.federation.hosts)}; "
                f"ofcl federation renew {self.folder} --host {host} makes one for it"
            )
        loopback = {"localhost": "127.0.0.1"}.get(host, host)
        self._listening.write_text("127.0.0.1" if everywhere else loopback, "ascii")

    @property
    def authority(self) -> Path:
        """The file of the authority's certificate, which vouches for the server."""
        return self._server / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The file of the server's certificate."""
        return self._server / "server.crt"

    @property
    def key(self) -> Path:
        """The file of the private key of the server's certificate."""
        return self._server / "server.key"

    @property
    def signing_key(self) -> Path:
        """The file of the private key with which the server signs its messages."""
        return self._server / "signing.key"

    @property
    def signing_public(self) -> Path:
        """The file of its public half, which each party has in its folder."""
        return self._server / "signing.pub"

    def expiry(self) -> str | None:
        """Gives a warning if the certificate expires soon or has expired; None: it is fine."""
        days = min(days_left(path.read_bytes()) for path in (self.certificate, self.authority))
        if days > RENEW_BEFORE:
            return None
        when = f"is good for {days} more days" if days >= 0 else "has expired"
        return f"the server's certificate {when}: ofcl federation renew {self.folder}"

    @property
    def secret(self) -> Path:
        """The file of the secret by which Flower's server knows the process of a run."""
        return self._server / "executor.secret"

    @property
    def database(self) -> Path:
        """The file in which Flower's server keeps its state."""
        return self._server / "state.db"

    @property
    def runs(self) -> Path:
        """The folder of the run directories."""
        return self.folder / "runs"

    @property
    def current(self) -> Path:
        """The file that names the newest run."""
        return self._server / "current.json"

    def token(self) -> str:
        """Reads the token that lets an administrator call the server."""
        return (self._server / "admin.token").read_text(encoding="ascii").strip()

    def public_keys(self) -> dict[str, Path]:
        """Gives the file of the public key of each party that takes part, by the party's name."""
        return {party: self._server / "keys" / f"{party}.pub" for party in self.federation.present}


@dataclass(frozen=True)
class PartyFolder:
    """The paths of the files that a party was handed, and of those that it writes.

    Args:
        folder: The party's folder.
        federation: The name of the federation.
        party: The name of the party.
        number: The number of the party: its place in the federation.
        server: The server's host and port.
    """

    folder: Path
    federation: str
    party: str
    number: int
    server: str

    @property
    def authority(self) -> Path:
        """The file of the authority's certificate, which vouches for the server."""
        return self.folder / "ca.crt"

    @property
    def key(self) -> Path:
        """The file of the private key by which the server knows the party."""
        return self.folder / "key"

    @contextmanager
    def used(self) -> Iterator[None]:
        """Locks the folder for this process, within the context.

        Raises:
            OfclError: If another process has locked it: it runs this party, or changes its memory.
        """
        lock = try_lock(self.folder / "lock")
        if lock is None:
            raise OfclError(f"'{self.folder}' is in use: {self.party} is running; stop it first")
        with lock:
            yield


def load_server(folder: Path) -> ServerFolder:
    """Reads the federation of a folder.

    Args:
        folder: The folder that `ofcl federation init` has made.

    Raises:
        OfclError: If the folder is not a federation.
    """
    path = folder / FILE
    if not path.exists():
        raise OfclError(
            f"'{folder}' is not a federation: it has no {FILE}. Make one: ofcl federation init"
        )
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    federation = Federation(values["name"], tuple(values["parties"]), tuple(values["hosts"]),
                            values["port"], tuple(values.get("left", ())))  # fmt: skip
    return ServerFolder(folder, federation)


def load_party(folder: Path) -> PartyFolder:
    """Reads a party's folder.

    Args:
        folder: The folder that the party was handed.

    Raises:
        OfclError: If the folder is not a party's.
    """
    path = folder / PARTY_FILE
    if not path.exists():
        raise OfclError(
            f"'{folder}' is not a party's folder: it has no {PARTY_FILE}. The organiser of the "
            "federation hands it out (ofcl federation init)"
        )
    values, key = tomllib.loads(path.read_text(encoding="utf-8")), folder / "key"
    if key.exists() and others_can_read(key):
        raise OfclError(
            f"others can read or change '{key}', which says who you are: chmod 600 {key}"
        )
    return PartyFolder(folder, values["federation"], values["party"], values["number"],
                       values["server"])  # fmt: skip


def bracketed(host: str) -> str:
    """Puts an IPv6 address in brackets, so that a port can follow.

    Args:
        host: A name or address; all but IPv6 addresses are given back as they are.
    """
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Tells whether a host is a loopback address, which only this machine can reach.

    Args:
        host: A name or address.
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
