"""Carries a run's messages as tasks of an NVFlare job.

NVFlare knows its sites by the names in their certificates, so a site's name is its party's name,
and no site can answer for another. At each site the job has a process that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from ofcl.federation.nvflare_app.task_payload import Payload, as_payload, from_payload
from ofcl.federation.transport import FAILED, Delivery
from ofcl.state import Flat, State

LATE = 4  # answers for each party that are kept until somebody fetches them


class Sites(Protocol):
    """The sites of a job, as its workflow reaches them."""

    def check(self) -> None:
        """Looks whether the job goes on.

        Raises:
            OfclError: If it has been stopped.
        """

    def present(self) -> Collection[str]:
        """Names the sites at which the job has a process now."""

    def ask(self, site: str, payload: Payload, answered: Callable[[Payload | None], None]) -> None:
        """Gives a site a task.

        Args:
            site: The name of the site.
            payload: What the task carries.
            answered: Is called, in any thread, with what the site answers; None: it could not.
        """


class TaskTransport:
    """A `Transport` to the sites of an NVFlare job.

    Args:
        sites: The sites of the job.
        parties: The names of the parties; their places are the parties' numbers.
    """

    def __init__(self, sites: Sites, parties: Sequence[str]) -> None:
        self._sites, self._parties = sites, list(parties)
        self._here: set[int] = set()
        self._times = dict.fromkeys(range(len(self._parties)), 0)  # party → how often it has come
        self._count = 0
        self._arrived: dict[str, Payload | None] = {}

    def connected(self) -> Mapping[int, str]:
        """Lists the parties at whose sites the job has a process.

        A site that was given up and is there again counts as a new process: NVFlare has dropped the
        task that it had.
        """
        self._sites.check()
        present = self._sites.present()
        here = {party for party, name in enumerate(self._parties) if name in present}
        for party in here - self._here:
            self._times[party] += 1
        self._here = here
        return {party: str(self._times[party]) for party in sorted(here)}

    def send(self, party: int, content: State | Flat) -> str:
        """Gives a party's site a task.

        Args:
            party: The number of the party, which the site is told: it knows its name alone.
            content: The message.

        Returns:
            An identifier of the message.
        """
        self._count += 1
        message = str(self._count)

        def answered(payload: Payload | None) -> None:
            self._arrived[message] = payload

        payload = as_payload({"number": party, "content": content})
        self._sites.ask(self._parties[party], payload, answered)
        return message

    def fetch(self, messages: Sequence[str]) -> Mapping[str, Delivery]:
        """Collects the answers that have arrived.

        Args:
            messages: Identifiers of the messages that wait for an answer.
        """
        self._sites.check()
        found = {
            message: _delivery(self._arrived.pop(message))
            for message in messages
            if message in self._arrived
        }
        while len(self._arrived) > LATE * len(self._parties):  # nobody waits for the oldest
            self._arrived.pop(next(iter(self._arrived)))
        return found

    def close(self) -> None:
        """Does nothing: NVFlare ends the tasks when its workflow has ended."""


def _delivery(payload: Payload | None) -> Delivery:
    """Reads an answer; one that cannot be read is an empty state, which is refused later."""
    if payload is None:
        return Delivery(None)
    try:
        content = from_payload(payload)
    except Exception:  # whatever a stranger's bytes cause
        return Delivery({})
    return Delivery(None if content == FAILED else content)
