"""Whom the server waits for, how long, and whom it asks again."""

import time

import pytest

from ofcl import OfclError
from ofcl.events import Round
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.server_side import courier
from ofcl.federation.server_side.courier import Courier
from ofcl.federation.server_side.exchange import ASK_AGAIN
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.terms import (
    Introduction,
    pack,
)
from ofcl.federation.transport import Delivery
from tests.support.federation import FEDERATION, SMALL, InProcess, hosted, locally, member, members
from tests.support.remote import assert_same, over_the_wire


def test_a_party_that_is_away_is_not_waited_for_and_comes_back(tmp_path):
    transport = InProcess(members(tmp_path))
    run, said = hosted(tmp_path, transport, {**SMALL, "min_clients": 2})
    rounds = []
    for event in run:
        if isinstance(event, Round):
            rounds.append(event.clients)
            transport.away = {1} if 1 <= len(rounds) < 4 else set()
    assert [0, 2] in rounds
    assert rounds[-1] in ([0, 1, 2], [1, 2], [0, 1])
    assert "hospital-b is not connected any more" in said
    assert said.count("hospital-b is connected") == 2
    counts = [m._responder._client.learned for m in transport.members.values()]
    assert counts == [27, 27, 27]


def test_a_party_that_is_started_again_is_asked_again(tmp_path):
    class Dying(InProcess):
        """Party 1 takes its third message with it, and is started again."""

        taken = 0

        def fetch(self, messages):
            mine = [m for m in messages if self.sent[m][0] == 1] if self.taken < 3 else []
            self.taken += len(mine)
            if mine and self.taken == 3:
                lost = mine[0]
                self.members[1].answer(self.sent[lost][1])  # learned and saved; no answer came
                self.members[1] = member(tmp_path, 1)
                self.processes[1] += 1
                self.dead = lost
                return super().fetch([m for m in messages if m != lost])
            return super().fetch([m for m in messages if m != getattr(self, "dead", None)])

    transport = Dying(members(tmp_path))
    run, _ = hosted(tmp_path, transport)
    list(run)
    _, server = locally()
    assert_same(run.server.model, server.model)


def test_who_does_not_answer_in_time_is_told_and_the_round_is_without(tmp_path):
    class Slow(InProcess):
        late = 0

        def fetch(self, messages):
            found = []
            for message in messages:
                party, content = self.sent[message]
                slow = party == 2 and content.get("request", {}).get("exchange") == 2
                self.late += slow
                if not slow:
                    found.append(message)
            return super().fetch(found)

    transport = Slow(members(tmp_path))
    run, said = hosted(tmp_path, transport, {**SMALL, "min_clients": 2, "round_timeout": 0.4})
    rounds = [event.clients for event in run if isinstance(event, Round)]
    assert rounds[1] == [0, 1]
    assert "no answer in time from hospital-c; the round is without" in said
    assert transport.late  # more often, where learning takes less time than the deadline


def test_a_party_that_fails_is_told_of_without_what_it_says(tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.federation.server_side.courier.AFTER_FAILURE", 0.1)
    monkeypatch.setattr("ofcl.federation.server_side.courier.LOOK_WHO", 0.05)

    class Failing(InProcess):
        failed = 0

        def fetch(self, messages):
            for message in messages:
                party, content = self.sent[message]
                if party == 0 and "request" in content and self.failed < 2:
                    self.failed += 1
                    self.sent[message] = party, {"request": 5}
                    self.members[0].answer, kept = _refuse, self.members[0].answer
                    found = super().fetch(messages)
                    self.members[0].answer = kept
                    return found
            return super().fetch(messages)

    def _refuse(content):
        raise OfclError("'/secret/patients.csv', sample 3: bad")

    transport = Failing(members(tmp_path))
    run, said = hosted(tmp_path, transport)
    list(run)
    assert said.count("hospital-a could not answer; its own log says why") == 2
    assert not any("patients" in line for line in said)
    _, server = locally()
    assert run.server.round == server.round


def test_too_few_parties_are_waited_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.federation.server_side.courier.LOOK_WHO", 0.01)
    transport = InProcess(members(tmp_path))
    transport.away, looks = {1, 2}, []
    connected = transport.connected

    def looked():
        looks.append(1)
        if len(looks) > 3:
            transport.away = set()
        return connected()

    transport.connected = looked
    _, said = hosted(tmp_path, transport)
    assert said[1] == "waiting for hospital-b, hospital-c (1 of 3 are here)"


def test_who_waits_for_a_first_sample_is_asked_once(monkeypatch):
    """Or he would have to answer all of it when the sample comes."""
    clock = [0.0]
    monkeypatch.setattr("ofcl.federation.server_side.courier.time.monotonic", lambda: clock[0])

    class Silent:
        sent, answer = 0, None

        def connected(self):
            return {0: "its process"}

        def send(self, party, content):
            self.sent += 1
            return str(self.sent)

        def fetch(self, messages):
            return {message: Delivery(self.answer) for message in messages if self.answer}

    transport = Silent()

    def pause(seconds):
        assert len(said) < 3, said
        clock[0] += max(seconds, 1.0)
        if clock[0] > 3600:
            transport.answer = introduction

    source = open_source({"dataset": "digits"}, True, lambda _: None)
    said = []
    introduction = over_the_wire(pack(Introduction("hospital-a", source.labels, source.samples())))
    courier = Courier(
        transport, ["hospital-a"], terms=None, deadline=None, pause=pause, tell=said.append
    )
    assert courier.introductions(1)[0].party == "hospital-a"
    assert said == ["hospital-a is connected"]
    assert transport.sent <= 1 + 3600 / ASK_AGAIN


def test_who_could_not_introduce_himself_is_asked_again_soon(monkeypatch):
    clock, asked = [0.0], []
    monkeypatch.setattr("ofcl.federation.server_side.courier.time.monotonic", lambda: clock[0])

    class Failing:
        def connected(self):
            return {0: "its process"}

        def send(self, party, content):
            asked.append(clock[0])
            return str(len(asked))

        def fetch(self, messages):
            return {message: Delivery(None) for message in messages}

    def pause(seconds):
        clock[0] += max(seconds, 1.0)
        if clock[0] > 60:
            raise KeyboardInterrupt

    courier = Courier(Failing(), ["a"], terms=None, deadline=None, pause=pause, tell=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        courier.introductions(1)
    assert len(asked) > 5


def test_a_party_that_calls_itself_another_is_rejected(tmp_path):
    transport, said = InProcess({0: member(tmp_path, 0)}), []
    transport.members[0]._party = "hospital-b"

    def pause(seconds):
        raise KeyboardInterrupt

    stage = FederationStage(FEDERATION, tmp_path, transport)
    with pytest.raises(KeyboardInterrupt):
        stage.prepare(run_settings(FEDERATION, SMALL), None, _Hooks(pause, said.append))
    assert said[-1] == "rejected what hospital-a has sent: it calls itself 'hospital-b'"


class _Hooks:
    def __init__(self, pause, tell):
        self.pause, self.tell, self.save = pause, tell, lambda: None


def test_time_is_not_wasted_where_nobody_is_connected(tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.federation.server_side.courier.LOOK_WHO", 0.02)
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, {**SMALL, "min_clients": 2})
    looks = 0
    connected = transport.connected

    def counted():
        nonlocal looks
        looks += 1
        if looks > 20:
            transport.away = set()
        return connected()

    events = iter(run)
    for event in events:
        if isinstance(event, Round):
            break
    transport.away, transport.connected = {0, 1, 2}, counted
    started = time.monotonic()
    next(event for event in events if isinstance(event, Round))
    assert looks > 20
    assert time.monotonic() - started > 0.1


@pytest.mark.parametrize(
    ("failing", "times", "models"),
    [({1}, 9, []), ({0, 1}, 5, ["round 0"]), ({0, 1}, 9, ["round 0", "round 3"])],
)
def test_the_server_goes_back_when_most_parties_fail_and_not_for_one(
    tmp_path, monkeypatch, failing, times, models
):
    """One that was killed fails for a while, too: the others have learned with the same model.

    If most fail with an earlier model as well, as they do where their policies refuse something,
    nothing of what was learned is lost.
    """
    monkeypatch.setattr(courier, "AFTER_FAILURE", 0.05)
    monkeypatch.setattr(courier, "LOOK_WHO", 0.01)  # shorter: exchanges in which nobody is asked

    class Ill(InProcess):
        """Some parties fail a few times in the middle of the run."""

        left = dict.fromkeys(failing, times)

        def fetch(self, messages):
            for message in messages:
                party, content = self.sent[message]
                if self.left.get(party) and content.get("request", {}).get("exchange", 0) >= 4:
                    self.left[party] -= 1
                    self.sent[message] = 3, content
            return super().fetch(messages)

    class Nobody:
        def answer(self, content):
            raise OfclError("'/secret/patients.csv', sample 3: bad")

    transport = Ill({**members(tmp_path), 3: Nobody()})
    transport.connected = lambda: {0: "0", 1: "0", 2: "0"}
    run, said = hosted(tmp_path, transport)
    list(run)
    told = [line for line in said if line.startswith("the global model is that of")]
    assert [" ".join(line.split()[6:8]) for line in told] == models
    assert transport.left == dict.fromkeys(failing, 0)
    if len(models) != 1:
        _, server = locally()
        assert_same(run.server.model, server.model)
