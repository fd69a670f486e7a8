"""Notes of a run's process at the server: who is there, who is asked, what was said and refused.

`server/status.json` has them, for `ofcl federation watch`. They come from the transport and the
log, so nothing in the run knows of them. Nothing that a party has sent is in them but the labels
of its introduction, which its audit file names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ofcl.federation.setup.folders import ServerFolder
from ofcl.federation.status_file import FILE, StatusFile, read_status
from ofcl.federation.terms import Introduction
from ofcl.federation.transport import ServerGone
from ofcl.stopping import Interrupted

MOST_LABELS = 100  # labels of a party that are noted; the others are counted
LONGEST = 80  # characters of a label
MOST_REJECTED = 30  # refusals that are kept
REFUSALS = ("rejected what ", " is in quarantine", " could not answer", "; the run is without")
"""Parts of the lines by which a run tells that something of a party was refused."""

State = str
"""How a run is: waiting, running, finished, stopped or failed."""


class RunStatus:
    """Notes how the process of a run is.

    Args:
        server: The server's folder.
        run: The run directory.
        made: Makes the file from its path and first facts.
    """

    def __init__(
        self,
        server: ServerFolder,
        run: Path,
        made: Callable[[Path, dict[str, Any]], StatusFile] = StatusFile,
    ) -> None:
        path, self._names = server.folder / "server" / FILE, server.federation.parties
        before = read_status(path)
        same = before.get("run") == str(run.resolve())
        kept: dict[str, Any] = {
            k: before[k]
            for k in ("lines", "rejected", "refused", "classes")
            if same and k in before
        }
        nobody: dict[str, dict[str, Any]] = {name: {} for name in self._names}
        first: dict[str, Any] = {
            "run": str(run.resolve()), "state": "waiting", "rejected": [], "refused": 0,
            "classes": {}, "parties": nobody, "epsilon": None,
        }  # fmt: skip
        self._file = made(path, {**first, **kept})
        self._cost: Callable[[], float | None] = lambda: None
        self._connected: Mapping[int, str] = {}

    def told(self, tell: Callable[[str], None]) -> Callable[[str], None]:
        """Makes a function that notes each line and then tells it to the user.

        Args:
            tell: Tells the user.
        """

        def note(text: str) -> None:
            if any(part in text for part in REFUSALS):
                rejected = self._file.facts["rejected"]
                rejected.append([round(self._file.now(), 1), text[:400]])
                del rejected[:-MOST_REJECTED]
                self._file.facts["refused"] += 1
            self._file.line(text)
            tell(text)

        return note

    def introduced(self, introductions: Mapping[int, Introduction]) -> None:
        """Notes the labels that parties have introduced themselves with.

        Args:
            introductions: The introductions by the numbers of the parties.
        """
        for party, said in introductions.items():
            labels = [label[:LONGEST] for label in said.labels[:MOST_LABELS]]
            noted = {"count": len(said.labels), "labels": labels}
            self._file.facts["classes"][self._names[party]] = noted
        self._file.changed()

    def connected(self, now: Mapping[int, str]) -> None:
        """Notes who is connected.

        Args:
            now: The process of each connected party (`Transport.connected`).
        """
        for party, name in enumerate(self._names):
            if now.get(party) == self._connected.get(party):
                continue
            noted = self._file.facts["parties"].setdefault(name, {})
            noted["since" if party in now else "away_since"] = round(self._file.now(), 1)
            noted["starts"] = noted.get("starts", 0) + (party in now)
            noted["connected"] = party in now
            self._file.changed()
        self._connected = dict(now)
        self._file.look()

    def asked(self, party: int) -> None:
        """Notes that a message was sent to a party.

        Args:
            party: The number of the party.
        """
        noted = self._file.facts["parties"].setdefault(self._names[party], {})
        noted["asked"] = round(self._file.now(), 1)
        self._file.changed()

    def answered(self, party: int, failed: bool) -> None:
        """Notes that a party has answered.

        Args:
            party: The number of the party.
            failed: Whether it has said that it could not.
        """
        noted = self._file.facts["parties"].setdefault(self._names[party], {})
        now, asked = self._file.now(), noted.pop("asked", None)
        noted["failed" if failed else "answered"] = round(now, 1)
        if asked is not None and not failed:
            noted["took"] = round(now - asked, 2)
        self._file.changed()

    def nobody_asked(self, waited_for: Sequence[int]) -> None:
        """Notes that no answer is expected any more but from some parties.

        Args:
            waited_for: The numbers of the parties whose answers are still expected.
        """
        for party, name in enumerate(self._names):
            if party not in waited_for:
                self._file.facts["parties"].get(name, {}).pop("asked", None)
        self._file.look()

    @contextmanager
    def going_on(self, cost: Callable[[], float | None] = lambda: None) -> Iterator[None]:
        """Notes that the run goes on within the context, and how it ends.

        Args:
            cost: Gives the ε of the run so far; None: it has no privacy noise.
        """
        self._cost = cost
        self._set("running")
        try:
            with self._file.alive():
                yield
        except (Interrupted, KeyboardInterrupt):
            self._set("stopped")
            raise
        except ServerGone:
            self._set("waiting")  # until it is back
            raise
        except BaseException as error:
            self._file.line(f"error: {error}")
            self._set("failed")
            raise
        self._set("finished")

    def note_cost(self) -> None:
        """Notes the ε of the run so far."""
        cost = self._cost()
        if cost != self._file.facts["epsilon"]:
            self._file.facts["epsilon"] = cost if cost is None or cost < 1e300 else 1e300
            self._file.changed()

    def _set(self, state: State) -> None:
        """Notes how the run is, at once."""
        self._file.facts["state"] = state
        self.note_cost()
        self._file.write()
