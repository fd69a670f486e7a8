"""Requests to parties over a network that loses things, and how long one waits for answers.

A request is sent again when the party's process has come back since, for what it had taken with it
is gone. Each exchange has a number, so nothing is learned twice (`engines/party.py`). Nobody waits
for a party that is not connected, nor longer than the deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ofcl.engines.gate import Rejected
from ofcl.engines.messages import Request, pack_request
from ofcl.federation.terms import Introduction, Terms, pack, unpack_introduction
from ofcl.federation.transport import Transport
from ofcl.state import State

LOOK_AGAIN = 0.1  # seconds between two looks for answers
LOOK_WHO = 1.0  # seconds between two looks at who is connected
ASK_AGAIN = 300.0  # seconds after which a request, or its answer, may have been lost
AFTER_FAILURE = 5.0  # seconds after which a party that has failed is asked again


@dataclass
class _Asked:
    """Who has been asked, and has not answered yet."""

    sent: dict[str, int] = field(default_factory=dict)  # message → party
    process: dict[int, str] = field(default_factory=dict)  # party → that it was sent to
    since: dict[int, float] = field(default_factory=dict)  # party → when that was
    again: bool = False  # whether their answers count later, too


class Courier:
    """Asks parties and waits for their answers.

    Nobody waits for the `gone`. `terms` gives what is agreed at the moment; with `deadline` an
    exchange ends after so many seconds, without those who have not answered.
    """

    def __init__(
        self,
        transport: Transport,
        names: Sequence[str],
        *,
        gone: Collection[int] = (),
        terms: Callable[[], Terms],
        deadline: float | None,
        pause: Callable[[float], None],
        tell: Callable[[str], None],
    ) -> None:
        self._transport, self._names, self._gone, self._terms = transport, list(names), gone, terms
        self._deadline, self._pause, self._tell = deadline, pause, tell
        self._failed: dict[int, float] = {}  # when a party has failed last
        self._there: set[int] = set()  # who was connected when that was told last

    def introductions(self, wanted: int) -> dict[int, Introduction]:
        """Asks parties to introduce themselves, until so many have."""
        found: dict[int, Introduction] = {}
        told: list[str] = []
        asked = _Asked(again=True)  # who waits for a first sample answers late
        while len(found) < wanted:
            connected = self._transport.connected()
            parties = [party for party in range(len(self._names)) if party not in self._gone]
            missing = [party for party in parties if party not in found]
            there = [party for party in missing if party in connected]
            if not there:
                away = [self._names[party] for party in missing]
                if away != told:
                    told = away
                    self._tell(f"waiting for {', '.join(away)} ({len(found)} of {wanted} are here)")
                self._pause(LOOK_WHO)
                continue
            contents: dict[int, State] = {party: {} for party in there}
            for party, state in self._answers(contents, LOOK_WHO * 30, asked).items():
                try:
                    introduction = unpack_introduction(state)
                    if introduction.party != self._names[party]:
                        raise Rejected(f"it calls itself {introduction.party!r}")
                except Rejected as error:
                    self._tell(f"rejected what {self._names[party]} has sent: {error}")
                    self._failed[party] = time.monotonic()
                else:
                    found[party] = introduction
        return found

    def exchange(self, requests: Mapping[int, Request]) -> Mapping[int, State]:
        """What those parties have answered that did so in time."""
        terms = pack(self._terms())
        contents = {
            party: {"request": pack_request(request), "terms": terms}
            for party, request in requests.items()
        }
        return self._answers(contents, self._deadline, _Asked())

    def _answers(
        self, contents: Mapping[int, State], deadline: float | None, asked: _Asked
    ) -> dict[int, State]:
        """Asks those who are connected, and waits for all of them, at most until the deadline."""
        started = time.monotonic()
        answers: dict[int, State] = {}
        sent, process, since = asked.sent, asked.process, asked.since
        looked = -LOOK_WHO
        connected: Mapping[int, str] = {}
        while True:
            now = time.monotonic()
            if now - looked >= LOOK_WHO:
                connected, looked = self._transport.connected(), now
                self._tell_who(connected)
            waiting = [party for party in contents if party not in answers]
            able = [p for p in waiting if p in connected and not self._just_failed(p, started)]
            for party in able:
                lost = now - since.get(party, now) >= ASK_AGAIN
                if process.get(party) == connected[party] and not lost:
                    continue
                if message := self._transport.send(party, contents[party]):
                    sent[message], process[party], since[party] = party, connected[party], now
            for message, arrived in self._transport.fetch(list(sent)).items():
                party = sent.pop(message)
                process.pop(party, None)  # who has failed may be asked again
                since.pop(party, None)
                if arrived.content is not None:
                    answers.setdefault(party, arrived.content)
                elif party not in answers:
                    self._tell(f"{self._names[party]} could not answer; its own log says why")
                    self._failed[party] = time.monotonic()
            if deadline is not None and time.monotonic() - started >= deadline:
                if not asked.again:
                    self._tell_late([p for p in contents if p not in answers and p in connected])
                return answers
            left = [
                p
                for p in contents
                if p not in answers and p in connected and not self._just_failed(p, started)
            ]
            if not left and answers:
                return answers
            self._pause(LOOK_AGAIN if left else LOOK_WHO)
            if not left and any(self._just_failed(party, started) for party in contents):
                return answers

    def _just_failed(self, party: int, started: float) -> bool:
        """Whether a party has failed in this exchange, or so short before that it is left alone."""
        failed = self._failed.get(party)
        return failed is not None and (failed >= started or started - failed < AFTER_FAILURE)

    def _tell_who(self, connected: Mapping[int, str]) -> None:
        there = set(connected)
        for party in sorted(there ^ self._there):
            state = "is connected" if party in there else "is not connected any more"
            self._tell(f"{self._names[party]} {state}")
        self._there = there

    def _tell_late(self, parties: Sequence[int]) -> None:
        if parties:
            late = ", ".join(self._names[party] for party in parties)
            self._tell(f"no answer in time from {late}; the round is without")

    def close(self) -> None:
        """Nothing will be asked any more."""
        self._transport.close()
