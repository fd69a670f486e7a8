"""The one place that chooses how messages travel between a federation's server and its parties.

A new way to carry messages is two classes, a `Transport` for the server and a `Connection` for a
party (`transport.py`), named here. A run and a party work with any of them. Today there is Flower.
Where somebody's Flower or NVFlare starts the processes, nothing is chosen: `flower_app/` and
`nvflare_app/` have transports of their own.

Keys and who is connected (`ofcl federation server`, `status`) are Flower's too: they are not part
of a transport (`setup/keys.py`, `server_side/enrolment.py`, `server_side/server_process.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ofcl.federation.party_side.flower_connection import FlowerConnection
from ofcl.federation.server_side.flower_transport import WEEK, FlowerTransport
from ofcl.federation.server_side.signed_transport import SignedTransport
from ofcl.federation.setup.folders import PartyFolder, ServerFolder
from ofcl.federation.signing import Signer
from ofcl.federation.transport import Connection, Transport


def open_transport(
    server: ServerFolder, *, insecure: bool, round_timeout: float | None
) -> Transport:
    """Opens the server's side of a run: a transport to all parties, which signs what it sends.

    Args:
        server: The server's folder.
        insecure: Whether to speak without TLS.
        round_timeout: Seconds after which a round goes on without a party's answer; messages that
            are much older need not be kept. None: a round waits for every answer.

    Raises:
        OfclError: If no server runs on this machine.
    """
    lasting = 2 * round_timeout if round_timeout else WEEK
    signer = Signer(server.signing_key.read_bytes())
    transport = FlowerTransport(server, insecure=insecure, lasting=lasting)
    return SignedTransport(transport, signer, server.federation.parties)


def make_connection(
    party: PartyFolder,
    address: str,
    *,
    insecure: bool,
    tell: Callable[[str], None],
    leaving: threading.Event,
) -> Connection:
    """Makes the party's side: a connection to the server, which opens as a context.

    Args:
        party: The party's folder, with its key.
        address: The server's host and port.
        insecure: Whether to speak without TLS.
        tell: Is given each line of the party's log.
        leaving: Is set when the process is about to end: the server is not called any more.
    """
    authority = None if insecure else party.authority.read_bytes()
    key = party.key.read_bytes()
    return FlowerConnection(address, authority, key, party.folder, tell, leaving)
