"""The folder of a federation: what `ofcl federation init` makes, and what each party is handed.

federation.toml        name, parties, who has left, address; no secrets
authority/             the key that signs; nobody but the organiser needs it
server/                certificate and key of the server, the parties' public keys, tokens
<party>/               to be handed to that party: its key, the authority's certificate, a README
runs/                  the runs, at the server
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import secrets
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ofcl.checkpoint import write_whole
from ofcl.errors import OfclError, unknown
from ofcl.federation.keys import Certified, certify, days_left, make_authority, make_party_key
from ofcl.settings_files import to_toml

RESERVED = {"authority", "server", "runs"}
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


def create(folder: Path, federation: Federation) -> None:
    """Makes the folder with all keys; refuses one that is there."""
    _check(federation)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OfclError(f"'{folder}' exists; a federation is made in a new folder")
    for part in ("authority", "server/keys"):
        (folder / part).mkdir(parents=True)
        (folder / part.split("/")[0]).chmod(0o700)
    authority = make_authority(federation.name)
    secret(folder / "authority" / "ca.key", authority.key)
    public(folder / "authority" / "ca.crt", authority.certificate)
    public(folder / "server" / "ca.crt", authority.certificate)
    _certify_server(folder, authority, federation.hosts)
    secret(folder / "server" / "admin.token", secrets.token_urlsafe(32).encode())
    secret(folder / "server" / "executor.secret", secrets.token_hex(32).encode())
    for party in federation.parties:
        _enrol(folder, federation, party)
    _save(folder, federation)


def add_party(folder: Path, party: str) -> None:
    """Makes the folder and the key of one more party; runs that begin from now on have it."""
    with _changing(folder) as federation:
        if party in federation.left:
            raise OfclError(f"'{party}' has left '{federation.name}'; give it another name")
        larger = replace(federation, parties=(*federation.parties, party))
        _check(larger)
        if (folder / party).exists():
            raise OfclError(f"'{folder / party}' exists")
        _enrol(folder, larger, party)
        _save(folder, larger)


def remove_party(folder: Path, party: str) -> None:
    """Lets a party take part no more: its key is refused, and nobody waits for it."""
    with _changing(folder) as federation:
        if party not in federation.present:
            raise unknown("party", party, federation.present)
        if len(federation.present) == 1:
            raise OfclError(f"'{party}' is the only party of '{federation.name}'")
        _save(folder, replace(federation, left=(*federation.left, party)))
        (folder / "server" / "keys" / f"{party}.pub").unlink(missing_ok=True)


def renew(folder: Path, hosts: Sequence[str] = ()) -> None:
    """Makes a new key and certificate for the server, and for other hosts if any are given."""
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


@contextmanager
def _changing(folder: Path) -> Iterator[Federation]:
    """The federation as it is, while nobody else changes it."""
    load_server(folder)  # tells what is wrong with the folder
    with (folder / "server" / "changing.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield load_server(folder).federation


def _certify_server(folder: Path, authority: Certified, hosts: Sequence[str]) -> None:
    """Both files are there before the first takes its place."""
    here = [host for host in ("localhost", "127.0.0.1") if host not in hosts]
    made, own = certify(authority, [*hosts, *here]), folder / "server"
    (own / "server.key.new").unlink(missing_ok=True)
    secret(own / "server.key.new", made.key)
    public(own / "server.crt.new", made.certificate)
    for name in ("server.key", "server.crt"):
        (own / f"{name}.new").replace(own / name)


def _enrol(folder: Path, federation: Federation, party: str) -> None:
    """Makes the folder of a party."""
    (folder / party).mkdir(mode=0o700)
    key = make_party_key()
    secret(folder / party / "key", key.private)
    public(folder / "server" / "keys" / f"{party}.pub", key.public)
    public(folder / party / "ca.crt", (folder / "server" / "ca.crt").read_bytes())
    own = {"federation": federation.name, "party": party,
           "number": federation.parties.index(party), "server": federation.address}  # fmt: skip
    public(folder / party / PARTY_FILE, to_toml(own).encode())
    public(folder / party / "README.md", _party_readme(federation, party).encode())


def _save(folder: Path, federation: Federation) -> None:
    values = {"name": federation.name, "parties": list(federation.parties),
              "hosts": list(federation.hosts), "port": federation.port,
              "left": list(federation.left)}  # fmt: skip
    write_whole(folder / FILE, to_toml(values))
    (folder / FILE).chmod(0o644)
    _hand_over(folder / FILE)


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


def secret(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    _hand_over(path)


def public(path: Path, content: bytes) -> None:
    """Writes a file that everybody may read."""
    path.write_bytes(content)
    path.chmod(0o644)
    _hand_over(path)


def _hand_over(path: Path) -> None:
    """Gives a file to whom its folder belongs: an administrator may work for the server's user."""
    owner = path.parent.stat()
    if owner.st_uid != path.stat().st_uid:
        os.chown(path, owner.st_uid, owner.st_gid)


def bracketed(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, seen by itself alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _check(federation: Federation) -> None:
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


def _party_readme(federation: Federation, party: str) -> str:
    return f"""# {party} in the federation "{federation.name}"

This folder is for {party} alone. `key` says who you are: whoever has it can take part as you.
Keep it where only the account that runs the client can read it, and do not send it by mail.

    pip install 'ofcl[flower]'
    ofcl federation client {party} --dataset DATA

DATA is a dataset (a folder of images, a CSV or NPZ file, a name of `ofcl data list`), a folder
in which files arrive (`watch:FOLDER`), or `-` for standard input.

The server is at {federation.address}. Your machine calls it; nothing has to be opened in your
firewall for incoming connections. Your samples stay here. What leaves is the model, and a few
counts; `audit.jsonl` in this folder lists every field of every message, and its bytes. The
memory of samples is in `runs/`: it is personal data. `ofcl federation client --help` says how
to encrypt it, `ofcl memory forget --help` how to delete a sample from it.
"""
