"""Buffered rounds between parties in one process: who is away or fails, and the run again."""

import json

import pytest

from ofcl import OfclError, Run
from ofcl.assembly.replaying import read_replay
from ofcl.assembly.stages import LocalStage
from ofcl.buffered import arrivals_of
from ofcl.events import Arrived, Learned, Round
from ofcl.federation.server_side import courier
from ofcl.federation.server_side.stage import FederationStage
from ofcl.settings.layers import make_settings
from tests.support.federation import FEDERATION, SMALL, InProcess, hosted, member, members
from tests.support.remote import assert_same

BUFFERED = {**SMALL, "min_clients": 2, "rounds": "buffered", "buffer": 2}


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    for name in ("LOOK_AGAIN", "LOOK_WHO", "AFTER_FAILURE"):
        monkeypatch.setattr(courier, name, 0.0)


class AtTheirPace(InProcess):
    """Each look finds the answers of those parties whose turn it is; others stay on their way."""

    paces, looks = (1, 2, 5), 0

    def __init__(self, members):
        super().__init__(members)
        self.frozen, self.asked = set(), []

    def send(self, party, content):
        if "request" in content:
            self.asked.append((party, content["request"]["exchange"]))
        return super().send(party, content)

    def fetch(self, messages):
        self.looks += 1
        there = [m for m in messages if self.looks % self.paces[self.sent[m][0]] == 0]
        return super().fetch([m for m in there if self.sent[m][0] not in self.frozen])


def replayed(run):
    recorded = read_replay(run.directory.path)
    again = Run(
        make_settings(recorded.values({"dataset": "digits"})), stage=LocalStage(replay=recorded)
    )
    events = list(again)
    return events, again.server


def rounds_of(events):
    return [event for event in events if isinstance(event, Round | Arrived)]


@pytest.mark.parametrize("change", [{}, {"compress": "int8", "closing_round": "end"}], ids=str)
def test_a_run_between_parties_is_computed_again_bit_for_bit(tmp_path, change):
    transport = AtTheirPace(members(tmp_path))
    run, _ = hosted(tmp_path, transport, {**BUFFERED, **change}, out=tmp_path / "run")
    events = list(run)
    order = arrivals_of(events)
    assert order[:4].count(0) > order[:4].count(2)
    again, server = replayed(run)
    assert rounds_of(again) == rounds_of(events)
    assert_same(server.model, run.server.model)


def test_a_frozen_killed_and_failing_party_holds_up_nobody(tmp_path):
    transport = AtTheirPace(members(tmp_path))
    run, said = hosted(tmp_path, transport, BUFFERED, out=tmp_path / "run")
    rounds, events = 0, []
    for event in run:
        events.append(event)
        rounds += isinstance(event, Round)
        if rounds == 1 and not transport.frozen:
            transport.frozen = {2}
        if rounds == 2:  # killed with what it was working on; its process starts again
            transport.members[1], transport.processes[1] = member(tmp_path, 1), 7
        if rounds == 4:
            transport.frozen, transport.away = {9}, {2}
        if rounds == 6:
            transport.away = set()
    assert "hospital-c is not connected any more" in said
    ages = {k: max(age for e in events if isinstance(e, Round)
                   for c, age in zip(e.clients, e.ages, strict=False) if c == k)
            for k in range(3)}  # fmt: skip
    assert ages[2] > ages[0]
    learned = [sum(e.batches for e in events if isinstance(e, Learned) and e.client == k)
               for k in range(3)]  # fmt: skip
    assert learned == [27, 27, 27]
    again, server = replayed(run)
    assert_same(server.model, run.server.model)


def test_a_run_whose_server_is_killed_goes_on_and_everybody_has_learned_once(tmp_path):
    transport = AtTheirPace(members(tmp_path))
    run, _ = hosted(tmp_path, transport, BUFFERED, out=tmp_path / "run")
    for number, _ in enumerate(run):
        if number == 40:
            break
    run.engine.close()
    run._lock.close()
    stage = FederationStage(FEDERATION, tmp_path, transport)
    resumed = Run.resume(tmp_path / "run", stage=stage, tell=lambda _: None)
    list(resumed)
    learned = [0, 0, 0]
    for event in resumed.directory.events():
        if event["event"] == "learned":
            learned[event["client"]] += event["batches"]
    assert learned == [27, 27, 27]
    again, server = replayed(resumed)
    assert_same(server.model, resumed.server.model)


def test_what_cannot_be_computed_again_is_refused(tmp_path):
    run, _ = hosted(tmp_path, AtTheirPace(members(tmp_path)), BUFFERED, out=tmp_path / "run")
    with pytest.raises(OfclError, match="--dataset"):
        read_replay(tmp_path / "run").values({})
    run.close()
    settings = tmp_path / "run" / "settings.toml"
    settings.write_text(settings.read_text().replace('rounds = "buffered"', 'rounds = "waiting"'))
    with pytest.raises(OfclError, match="rounds = 'waiting'"):
        read_replay(tmp_path / "run")


def test_an_order_of_another_run_is_refused(tmp_path):
    transport = AtTheirPace(members(tmp_path))
    run, _ = hosted(tmp_path, transport, BUFFERED, out=tmp_path / "run")
    list(run)
    events = tmp_path / "run" / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    first = next(line for line in lines if line["event"] == "arrived")
    events.write_text("".join(json.dumps(first) + "\n" for _ in range(20)))
    with pytest.raises(OfclError, match="of another run"):
        replayed(run)
