"""Answers a run's messages at a site, by one member that stays as long as the job.

The client, its memory and its last answer are in the party's folder (`engines/responder.py`), too.
So a site that is killed loses nothing, and a message that comes twice is learned once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

from ofcl.errors import OfclError
from ofcl.federation.party_side.hosted_party import HostedParty
from ofcl.federation.party_side.member import Member
from ofcl.state import Flat, State
from ofcl.storage.locks import Lock, try_lock

ADVICE = 'write it into this site\'s {file}, as a line: dataset = "data.csv"'


def read_site(file: Path, site: str, folder: Path, log: Callable[[str], None]) -> HostedParty:
    """Reads a site's own configuration, a TOML file that its people write and the server does not.

    Args:
        file: The file: `dataset`, perhaps `folder`, and what else `HostedParty.of` knows.
        site: The name of the site, which is the name of its party.
        folder: The party's folder if the file names none.
        log: Is given each line of the party's log.

    Raises:
        OfclError: If the file is missing or a value cannot be used; the error says which.
    """
    try:
        own = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        own = {}
    except (OSError, ValueError) as error:
        raise OfclError(f"'{file}' cannot be read: {error}") from None
    if own.get("party", site) != site:
        raise OfclError(f"party = {own['party']!r} in '{file}', and this site is {site!r}")
    config = {"folder": str(folder), **own, "party": site}
    return HostedParty.of("nvflare", config, ADVICE.format(file=file), log)


class SiteParty:
    """A site's party: made by its first message, and ready for the next.

    Args:
        party: The party as its own configuration describes it.
    """

    def __init__(self, party: HostedParty) -> None:
        self._party = party
        self._lock: Lock | None = None
        self._member: tuple[int, Member] | None = None

    def answer(self, message: State) -> State | Flat:
        """Answers a message.

        Args:
            message: The party's number in this run, and the server's message.

        Returns:
            The answer. If there is none, `FAILED`: the reason stays in the site's own log.
        """
        try:
            return self._member_of(int(message["number"])).answer(message["content"])
        except Exception as error:
            return self._party.failed(error, self._member[1] if self._member else None)

    def _member_of(self, number: int) -> Member:
        """Gives the party's member; opens its data and locks its folder when it is made."""
        if self._lock is None:
            self._party.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = try_lock(self._party.folder / "lock")
            if self._lock is None:
                raise OfclError(
                    f"another process works in '{self._party.folder}'; end that job, or name "
                    "another folder"
                )
        if self._member is None or self._member[0] != number:
            self._member = number, self._party.member(number)
        return self._member[1]

    def close(self) -> None:
        """Frees the party's folder; a second call does nothing."""
        if self._lock is not None:
            self._lock.close()
        self._lock = self._member = None
