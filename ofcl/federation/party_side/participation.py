"""Taking part in a federation as one party: everything that `ofcl federation client` starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ofcl.federation.party_side.kept_models import Keep
from ofcl.federation.party_side.member import RUNS, Member
from ofcl.federation.party_side.model_files import seal_models
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.party_policy import load_policy
from ofcl.federation.party_side.party_status import PartyStatus
from ofcl.federation.setup.folders import PartyFolder
from ofcl.federation.signing import Verifier
from ofcl.federation.transport_choice import make_connection
from ofcl.secure_sum.identity import Identity
from ofcl.state import State
from ofcl.storage.checkpoint import encrypt_plain
from ofcl.storage.encryption import Seal


def take_part(
    party: PartyFolder,
    values: State,
    *,
    leaving: threading.Event,
    share: bool = False,
    class_counts: bool = True,
    keep: Keep = "global",
    local_too: bool = False,
    cross_site: bool = False,
    secure_only: bool = False,
    accept_loss: bool = False,
    seal: Seal | None = None,
    address: str | None = None,
    insecure: bool = False,
    tell: Callable[[str], None] = print,
) -> None:
    """Takes part as one party until the process is stopped.

    If the process is killed and started again, it goes on where it was.

    Args:
        party: The party's folder.
        values: The settings that a party decides for itself: `dataset`, and how it is read.
        leaving: Is set when the process is about to end: the server is not called any more.
        share: Whether the party learns only the share of the dataset that `ofcl run` would deal to
            the client of its number.
        class_counts: Whether answers may say how many samples of each class there are.
        keep: Which model the party keeps: the one that all have learned, or its own.
        local_too: Whether a second learner learns from the party's data alone, to compare with.
        cross_site: Whether the party agrees to cross-site validation in runs that ask for it.
        secure_only: Whether runs without secure aggregation are refused.
        accept_loss: Whether to go on although the server knows of more than what is saved here.
        seal: Encrypts all that is saved, and what was saved before; None: saves it unencrypted.
        address: The server's host and port; None: those in the party's folder.
        insecure: Whether to speak to the server without TLS.
        tell: Is given each line of the party's log.

    Raises:
        OfclError: If the folder is in use, the data cannot be read, or the server refuses the
            party.
    """
    address = address or party.server
    verifier = Verifier.of_folder(party.folder, party.party)
    with party.used():
        status = PartyStatus(party.folder, local_too=local_too)
        tell = status.told(tell)
        if seal is not None:
            seal_saved(party.folder / RUNS, seal, tell)
            seal_models(party.folder, seal, tell)
        policy, remark = load_policy(party.folder)
        tell(remark)
        source = open_source(policy.with_parts(values), share, tell)
        member = Member(
            party.folder,
            party.party,
            party.number,
            source,
            class_counts=class_counts,
            federation=party.federation,
            keep=keep,
            local_too=local_too,
            cross_site=cross_site,
            identity=Identity.of_folder(party.folder, party.party),
            secure_only=secure_only,
            policy=policy,
            accept_loss=accept_loss,
            seal=seal,
            status=status,
            tell=tell,
        )
        with make_connection(
            party, address, insecure=insecure, tell=tell, leaving=leaving
        ) as connection:
            tell(f"connected to {address}" + (", NOT encrypted" if insecure else ""))
            with status.connected():
                connection.serve(
                    lambda message: member.answer(verifier.opened(message)), member.failed
                )


def seal_saved(runs: Path, seal: Seal, tell: Callable[[str], None] = print) -> None:
    """Encrypts the checkpoints of all runs that were saved unencrypted.

    Args:
        runs: The folder that has a folder for each run.
        seal: Encrypts with the party's key.
        tell: Is given a line for every damaged checkpoint, which cannot be encrypted.
    """
    for folder in sorted(runs.glob("*")):
        for path in encrypt_plain(folder, seal):
            tell(f"'{path}' is damaged and could not be encrypted: delete it")
