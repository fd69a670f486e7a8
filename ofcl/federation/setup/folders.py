"""The folder of a federation: what is where, at the organiser, the server and the parties.

federation.toml        name, parties, who has left, address; no secrets
authority/             the key that signs; nobody but the organiser needs it
server/                certificate and key of the server, the parties' public keys, tokens
<party>/               to be handed to that party: its key, the authority's certificate, a README
runs/                  the runs, at the server
"""

from __future__ import annotations

import fcntl
import ipaddress
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ofcl.errors import OfclError
from ofcl.federation.setup.keys import days_left

FILE = "federation.toml"
PARTY_FILE = "party.toml"
RENEW_BEFORE = 60  # days before the server's certificate expires, it is said


@dataclass(frozen=True)
class Federation:
    """Who takes part, and where the server is."""

    name: str
    parties: tuple[str, ...]  # their places are the numbers of the clients
    hosts: tuple[str, ...]  # names and addresses of the server, as parties reach it
    port: int
    left: tuple[str, ...] = ()  # those of the parties that do not take part any more

    @property
    def present(self) -> tuple[str, ...]:
        """The parties that take part."""
        return tuple(party for party in self.parties if party not in self.left)

    @property
    def gone(self) -> frozenset[int]:
        """The numbers of those that have left: nobody else gets them."""
        return frozenset(map(self.parties.index, self.left))

    @property
    def address(self) -> str:
        """Where parties find the server."""
        return f"{bracketed(self.hosts[0])}:{self.port}"


@dataclass(frozen=True)
class ServerFolder:
    """What the server needs, and keeps."""

    folder: Path
    federation: Federation

    @property
    def _own(self) -> Path:
        return self.folder / "server"

    @property
    def here(self) -> str:
        """Its address on its own machine."""
        host = self._listening.read_text("ascii") if self._listening.exists() else "127.0.0.1"
        return f"{bracketed(host)}:{self.federation.port}"

    @property
    def _listening(self) -> Path:
        return self._own / "listening"

    def listen_on(self, host: str) -> None:
        """Notes where the server can be reached on its own machine."""
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
        """The certificate that vouches for the server."""
        return self._own / "ca.crt"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self._own / "server.crt"

    @property
    def key(self) -> Path:
        """The key of that certificate."""
        return self._own / "server.key"

    def expiry(self) -> str | None:
        """What to say of the certificate when it will not be good for much longer."""
        days = min(days_left(path.read_bytes()) for path in (self.certificate, self.authority))
        if days > RENEW_BEFORE:
            return None
        when = f"is good for {days} more days" if days >= 0 else "has expired"
        return f"the server's certificate {when}: ofcl federation renew {self.folder}"

    @property
    def secret(self) -> Path:
        """What the process of a run shows to be given the run's task."""
        return self._own / "executor.secret"

    @property
    def database(self) -> Path:
        """Where Flower's server keeps its state."""
        return self._own / "state.db"

    @property
    def runs(self) -> Path:
        """The run directories."""
        return self.folder / "runs"

    @property
    def current(self) -> Path:
        """Names the run that is going on, or was last, and the process that runs it."""
        return self._own / "current.json"

    def token(self) -> str:
        """What an administrator shows."""
        return (self._own / "admin.token").read_text(encoding="ascii").strip()

    def public_keys(self) -> dict[str, Path]:
        """The public keys of the parties that take part."""
        return {party: self._own / "keys" / f"{party}.pub" for party in self.federation.present}


@dataclass(frozen=True)
class PartyFolder:
    """What a party was handed, and keeps."""

    folder: Path
    federation: str
    party: str
    number: int
    server: str

    @property
    def authority(self) -> Path:
        """The certificate that vouches for the server."""
        return self.folder / "ca.crt"

    @property
    def key(self) -> Path:
        """The key that says who it is."""
        return self.folder / "key"

    @contextmanager
    def used(self) -> Iterator[None]:
        """Refuses to let two processes be one party, or to change what one is working on."""
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OfclError(
                    f"'{self.folder}' is in use: {self.party} is running; stop it first"
                ) from None
            yield


def load_server(folder: Path) -> ServerFolder:
    """The federation of a folder, with what its server needs."""
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
    """A party's folder."""
    path = folder / PARTY_FILE
    if not path.exists():
        raise OfclError(
            f"'{folder}' is not a party's folder: it has no {PARTY_FILE}. The organiser of the "
            "federation hands it out (ofcl federation init)"
        )
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    return PartyFolder(folder, values["federation"], values["party"], values["number"],
                       values["server"])  # fmt: skip


def bracketed(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, seen by itself alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
