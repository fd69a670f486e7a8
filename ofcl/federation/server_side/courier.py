"""Requests to parties over a network that loses things, and how long the server waits for answers.

A request is sent again when the party's process has been started again, because a process that ends
loses the request that it was working on. Each exchange has a number, so nothing is learned twice
(`engines/responder.py`). The server waits neither for a party that is not connected, nor beyond
the deadline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from ofcl.engines.messages import Request, pack_request
from ofcl.engines.rejection import Rejected
from ofcl.federation.server_side.exchange import Exchange, Outstanding
from ofcl.federation.terms import Introduction, Terms, pack, unpack_introduction
from ofcl.federation.transport import Transport
from ofcl.state import Flat, State, flatten

LOOK_AGAIN = 0.1  # seconds between two looks for answers
LOOK_WHO = 1.0  # seconds between two looks at who is connected
LAST_WAIT = 30.0  # seconds that parties have to fetch the final model, or to come back at the end
MOST_WAIT = 600.0  # seconds that a party may take to test a model of others
AFTER_FAILURE = 5.0  # seconds after which a party that has failed is asked again


class Courier:
    """Asks parties and waits for their answers: the `Channel` of a federation's engine.

    Args:
        transport: Carries the messages.
        names: The names of the parties; their places are the parties' numbers.
        gone: Numbers of parties that have left the federation. They are never asked.
        terms: Gives the current terms of the run.
        deadline: Seconds after which an exchange ends without the parties that have not answered;
            None: it waits for every party that is connected.
        pause: Waits for some seconds; it may raise to end the run.
        tell: Is given each line for the user.
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
        self._failures: dict[int, float] = {}  # party → time of its last failure
        self.all_failed = False  # whether everybody who was asked last has failed
        self.most_failed = False  # whether most parties of the federation failed when asked last
        self._announced: set[int] = set()  # the parties that the user knows to be connected
        self._connected: Mapping[int, str] = {}  # party → its process, at the last look
        self._looked: float | None = None  # time of the last look
        self._outstanding, self._numbers = Outstanding(), dict[int, int]()  # of `arrivals`
        self._waited_for: list[int] = []  # the absent parties that the user was last told of
        self._packed: tuple[Terms, Flat] | None = None  # the terms that were sent last

    def introductions(self, wanted: int) -> dict[int, Introduction]:
        """Asks parties to introduce themselves, until enough of them have.

        Args:
            wanted: How many introductions are enough.

        Returns:
            The introductions by the numbers of the parties; there may be more than `wanted`.
        """
        introductions: dict[int, Introduction] = {}
        waited_for: list[int] = []
        outstanding = Outstanding()  # a party that waits for its first sample answers late
        while len(introductions) < wanted:
            connected = self._transport.connected()
            missing = [
                party
                for party in range(len(self._names))
                if party not in self._gone and party not in introductions
            ]
            present = [party for party in missing if party in connected]
            if present:
                nothing: dict[int, State] = {party: {} for party in present}
                exchange = Exchange(nothing, time.monotonic(), LOOK_WHO * 30, outstanding)
                self._carry_out(exchange)
                introductions |= self._accepted(exchange.answers)
                continue
            if missing != waited_for:
                waited_for = missing
                away = ", ".join(self._names[party] for party in missing)
                self._tell(f"waiting for {away} ({len(introductions)} of {wanted} are here)")
            self._pause(LOOK_WHO)
        return introductions

    def _accepted(self, answers: Mapping[int, State]) -> dict[int, Introduction]:
        """Reads the introductions of parties.

        A party whose introduction is wrong is left out, and counts as failed: it is asked again
        after some seconds.

        Args:
            answers: The answers by the numbers of the parties.

        Returns:
            The right introductions by the numbers of the parties.
        """
        accepted = {}
        for party, answer in answers.items():
            try:
                introduction = unpack_introduction(answer)
                if introduction.party != self._names[party]:
                    raise Rejected(f"it calls itself {introduction.party!r}")
            except Rejected as error:
                self._tell(f"rejected what {self._names[party]} has sent: {error}")
                self._failures[party] = time.monotonic()
            else:
                accepted[party] = introduction
        return accepted

    def exchange(self, requests: Mapping[int, Request]) -> Mapping[int, State]:
        """Sends requests, and waits for the answers.

        Args:
            requests: The requests by the numbers of the parties.

        Returns:
            The answers by the numbers of the parties; parties that did not answer are missing.
        """
        exchange = self._made(requests, self._deadline)
        if not self._carry_out(exchange):
            self._tell_late([p for p in exchange.unanswered if p in self._connected])
        self._note_failures(exchange, exchange.started)
        return exchange.answers

    def _note_failures(self, exchange: Exchange, since: float) -> None:
        """Notes whether all parties have failed that were asked, and whether most of all have.

        A party that is waited for alone, say because it was killed, says nothing about the others.
        And one failure is counted once, however many exchanges it lasts.

        Args:
            exchange: The exchange.
            since: When it began; earlier failures are those of an earlier exchange.
        """
        asked = [party for party in exchange.contents if party in self._connected]
        self.all_failed = bool(asked) and all(self._has_failed(p, exchange) for p in asked)
        now = sum(self._failures.get(party, -math.inf) >= since for party in asked)
        parties = len(set(range(len(self._names))) - set(self._gone))
        self.most_failed = self.all_failed and 2 * now > parties

    def arrivals(self, requests: Mapping[int, Request], *, wait: bool) -> Mapping[int, State]:
        """Sends requests that are not on their way, and gives the answers that have come.

        Requests that are not answered stay on their way; there is no deadline.

        Args:
            requests: The requests by the numbers of the parties.
            wait: Whether to wait until there is an answer, or all that are connected have failed.

        Returns:
            The answers by the numbers of the parties.
        """
        for party, request in requests.items():
            if self._numbers.get(party) != request.exchange:  # an answer to another is too late
                self._outstanding.forget(party)
                self._numbers[party] = request.exchange
        exchange = self._made(requests, None, self._outstanding)
        began = exchange.started
        while True:
            exchange.started = time.monotonic()  # who has failed is asked again after some seconds
            self._look_who()
            self._ask(exchange)
            self._collect(exchange)
            self._note_failures(exchange, began)
            if exchange.answers or not wait:
                return exchange.answers
            self._tell_away(exchange)
            self._pause(LOOK_AGAIN if self._askable(exchange) else LOOK_WHO)
            if self.all_failed:
                return {}

    def _tell_away(self, exchange: Exchange) -> None:
        """Tells the user, once, for whom the run waits, if none of these parties is connected."""
        away = list(exchange.contents)
        if any(party in self._connected for party in away):
            away = []
        if away and away != self._waited_for:
            self._tell(f"waiting for {', '.join(self._names[party] for party in away)}")
        self._waited_for = away

    def hand_out(self, requests: Mapping[int, Request]) -> Mapping[int, State]:
        """Sends requests when the run is over, and waits a short time for the answers.

        Args:
            requests: The requests by the numbers of the parties.

        Returns:
            The answers by the numbers of the parties; parties that did not answer are missing.
        """
        exchange = self._made(requests, LAST_WAIT)
        self._carry_out(exchange)
        return exchange.answers

    def insist(self, requests: Mapping[int, Request]) -> Mapping[int, State]:
        """Sends requests, and again to parties that are away or have failed; not for ever.

        It waits as long as a round does (`deadline`), else `MOST_WAIT` seconds, for parties that
        are at work; `LAST_WAIT` seconds for those that are away or have failed.

        Args:
            requests: The requests by the numbers of the parties.

        Returns:
            The answers by the numbers of the parties; parties that did not answer are missing.
        """
        began, answers = time.monotonic(), dict[int, State]()
        most = max(self._deadline or MOST_WAIT, LAST_WAIT)
        exchange = self._made(requests, LOOK_WHO)
        while exchange.contents:
            self._carry_out(exchange)
            answers |= exchange.answers
            now, left = time.monotonic(), exchange.unanswered
            at_work = [p for p in left if p in self._connected and p not in self._failures]
            if not left or now - began >= (most if at_work else LAST_WAIT):
                break
            contents = {party: exchange.contents[party] for party in left}
            exchange = Exchange(contents, now, LOOK_WHO, exchange.outstanding)
        return answers

    def _made(
        self,
        requests: Mapping[int, Request],
        deadline: float | None,
        outstanding: Outstanding | None = None,
    ) -> Exchange:
        """Makes an exchange that is to be carried out.

        Args:
            requests: The requests by the numbers of the parties.
            deadline: Seconds after which it ends; None: it waits for every party.
            outstanding: Messages that are on their way already; None: none are.
        """
        terms = self._packed_terms()
        models: dict[int, Flat] = {}  # each model is flattened once for all parties
        contents: dict[int, State] = {}
        for party, request in requests.items():
            packed: State = pack_request(request)
            if id(request.model) not in models:
                models[id(request.model)] = flatten(request.model)
            packed["model"] = models[id(request.model)]
            contents[party] = {"request": packed, "terms": terms}
        return Exchange(contents, time.monotonic(), deadline, outstanding or Outstanding())

    def _packed_terms(self) -> Flat:
        """Packs the terms of the run; they are packed again only when they have changed."""
        terms = self._terms()
        if self._packed is None or self._packed[0] != terms:
            self._packed = terms, flatten(pack(terms))
        return self._packed[1]

    def _carry_out(self, exchange: Exchange) -> bool:
        """Asks the connected parties of an exchange, and waits until all have answered or failed.

        Their answers are put into the exchange.

        Args:
            exchange: The messages for the parties, and the deadline.

        Returns:
            Whether the exchange ended before its deadline.
        """
        self._looked = None
        while True:
            self._look_who()
            self._ask(exchange)
            self._collect(exchange)
            if exchange.is_over(time.monotonic()):
                return False
            awaited = self._askable(exchange)
            if not awaited and exchange.answers:
                return True
            self._pause(LOOK_AGAIN if awaited else LOOK_WHO)
            if not awaited and any(
                self._has_failed(party, exchange) for party in exchange.contents
            ):
                return True

    def _look_who(self) -> None:
        """Updates the connected parties, at most once a second; tells the user of changes."""
        now = time.monotonic()
        if self._looked is None or now - self._looked >= LOOK_WHO:
            self._connected, self._looked = self._transport.connected(), now
            self._tell_who(set(self._connected))

    def _ask(self, exchange: Exchange) -> None:
        """Sends each askable party its message of the exchange, for the first time or once more."""
        now = time.monotonic()
        for party in self._askable(exchange):
            process = self._connected[party]
            if not exchange.outstanding.must_ask(party, process, now):
                continue
            if message := self._transport.send(party, exchange.contents[party]):
                exchange.outstanding.add(message, party, process, now)

    def _collect(self, exchange: Exchange) -> None:
        """Puts answers that have arrived into the exchange; tells the user who could not answer."""
        for message, delivery in self._transport.fetch(exchange.outstanding.messages).items():
            party = exchange.outstanding.remove(message)
            if party in exchange.answers:
                continue
            if delivery.content is not None:
                exchange.answers[party] = delivery.content
                self._failures.pop(party, None)
            else:
                self._tell(f"{self._names[party]} could not answer; its own log says why")
                self._failures[party] = time.monotonic()

    def _askable(self, exchange: Exchange) -> list[int]:
        """Lists the unanswered parties of an exchange that are connected and have not failed."""
        return [
            party
            for party in exchange.unanswered
            if party in self._connected and not self._has_failed(party, exchange)
        ]

    def _has_failed(self, party: int, exchange: Exchange) -> bool:
        """Tells whether a party has failed in this exchange, or shortly before it started."""
        failed = self._failures.get(party)
        return failed is not None and exchange.started - failed < AFTER_FAILURE

    def failed(self) -> list[int]:
        """Lists the parties that could not answer when they were asked last."""
        return list(self._failures)

    def _tell_who(self, connected: set[int]) -> None:
        """Tells the user which parties have come or gone since the last time."""
        for party in sorted(connected ^ self._announced):
            state = "is connected" if party in connected else "is not connected any more"
            self._tell(f"{self._names[party]} {state}")
        self._announced = connected

    def _tell_late(self, parties: Sequence[int]) -> None:
        """Tells the user which parties have not answered in time."""
        if parties:
            late = ", ".join(self._names[party] for party in parties)
            self._tell(f"no answer in time from {late}; the round is without")

    def close(self) -> None:
        """Closes the transport: no party will be asked any more."""
        self._transport.close()
