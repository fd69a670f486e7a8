"""A federation without a network: what parties and the server do, and what leaves a party."""

import json
import os
import re
import shutil
import stat
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ofcl import OfclError, make_settings
from ofcl.aggregation import fedavg, weighted_fedavg
from ofcl.algorithm import federate
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.data.live.vocabulary import AssignedVocabulary
from ofcl.data.scenario import build_scenario
from ofcl.engines.local import LocalEngine
from ofcl.engines.messages import Request, pack_request
from ofcl.engines.rejection import Rejected
from ofcl.events import Appeared, Evaluated, Learned, Remembered, Round, Skipped
from ofcl.experiment import Run
from ofcl.federation.party_side.audit import Audit, fields_of
from ofcl.federation.party_side.flower_calls import Caller, Refused
from ofcl.federation.party_side.member import Member
from ofcl.federation.party_side.own_data import open_source, settings_here
from ofcl.federation.party_side.participation import seal_saved
from ofcl.federation.party_side.released_events import leaving
from ofcl.federation.server_side.courier import Courier
from ofcl.federation.server_side.exchange import ASK_AGAIN
from ofcl.federation.server_side.stage import FederationStage, run_settings
from ofcl.federation.setup import keys
from ofcl.federation.setup.folders import Federation, is_loopback, load_party, load_server
from ofcl.federation.setup.organiser import add_party, create, remove_party, renew
from ofcl.federation.terms import (
    Introduction,
    LabelSpace,
    Samples,
    Terms,
    agreed,
    pack,
    travelling_settings,
    unpack_introduction,
    unpack_terms,
)
from ofcl.federation.transport import Delivery
from ofcl.settings.rules import AT_PARTY
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ofcl.storage.encryption import Seal
from ofcl.storage.memories import memory_places
from ofcl.storage.run_directory import RunDirectory
from ofcl.update import Update
from tests.engines.test_remote import assert_same, over_the_wire
from tests.support.commands import ofcl as command

SMALL = {"method": "bi", "memory": 40, "tasks": 3, "model": "mlp", "hidden": 16, "burn_in": 2,
         "q": 3, "limit": 9, "min_clients": 3}  # fmt: skip
PARTIES = ("hospital-a", "hospital-b", "hospital-c")
FEDERATION = Federation("trial", PARTIES, ("127.0.0.1",), 8000)


class InProcess:
    """A transport between a server and parties in one process; parties come, go and fail."""

    def __init__(self, members):
        self.members = dict(members)
        self.processes = dict.fromkeys(self.members, 0)
        self.away = set()
        self.sent, self.lost = {}, set()
        self.count = 0

    def connected(self):
        return {k: str(self.processes[k]) for k in self.members if k not in self.away}

    def send(self, party, content):
        self.count += 1
        self.sent[str(self.count)] = party, over_the_wire(content)
        return str(self.count)

    def fetch(self, messages):
        found = {}
        for message in messages:
            party, content = self.sent.pop(message)
            try:
                found[message] = Delivery(over_the_wire(self.members[party].answer(content)))
            except OfclError:
                found[message] = Delivery(None)
        return found

    def close(self):
        self.closed = True


def member(folder, number, source=None, **how):
    folder = folder / PARTIES[number]
    folder.mkdir(parents=True, exist_ok=True)
    source = source or open_source({"dataset": "digits"}, True, lambda _: None)
    return Member(folder, PARTIES[number], number, source, tell=lambda _: None, **how)


def members(folder, **how):
    return {number: member(folder, number, **how) for number in range(3)}


def hosted(tmp_path, transport, settings=SMALL, federation=FEDERATION, **how):
    said = []
    made = run_settings(federation, settings)
    stage = FederationStage(federation, tmp_path, transport)
    return Run(made, stage=stage, tell=said.append, **how), said


def locally(**change):
    made = make_settings({**SMALL, "dataset": "digits", "clients": 3, **change})
    parties = dataset_participants(made, None)
    events = list(federate(LocalEngine(parties.clients), parties.server))
    return events, parties.server


# The same learner


def test_parties_learn_bit_for_bit_as_clients_of_one_process(tmp_path):
    run, said = hosted(tmp_path, InProcess(members(tmp_path)))
    events = list(run)
    expected, server = locally()
    assert_same(run.server.model, server.model)
    assert [e for e in events if isinstance(e, Round)] == [
        e for e in expected if isinstance(e, Round)
    ]
    told = [e for e in expected if isinstance(e, Evaluated)]
    assert sorted(map(str, told)) == sorted(str(e) for e in events if isinstance(e, Evaluated))
    assert run.settings.dataset == "trial"
    assert said == [f"{name} is connected" for name in PARTIES]


def test_own_data_are_learned_whole_and_classes_have_the_places_of_the_federation(tmp_path):
    draw = np.random.default_rng(0)

    def table(name, labels):
        path = tmp_path / f"{name}.npz"
        y = np.repeat(labels, 40)
        x = draw.normal(0, 0.3, (len(y), 4)) + np.array([len(label) for label in y])[:, None]
        np.savez(path, x=x, y=y)
        return open_source({"dataset": str(path)}, False, lambda _: None)

    first = table("one", ["a", "ccc", "zzzzzzzzz"])
    second = table("two", ["bbbbbb", "ccc"])
    transport = InProcess({0: member(tmp_path, 0, first), 1: member(tmp_path, 1, second)})
    settings = {**SMALL, "tasks": 2, "min_clients": 2}
    run, _ = hosted(tmp_path, transport, settings)
    events = iter(run)
    for event in events:
        if isinstance(event, Evaluated) and event.task == 1 and event.client == 1:
            break
    assert run.labels == ("a", "ccc", "zzzzzzzzz", "bbbbbb")
    y = set(transport.members[0]._responder._client.learner.memory.samples.y.tolist())
    assert y == {0, 1, 2}
    assert set(transport.members[1]._responder._client.learner.memory.samples.y.tolist()) == {1, 3}
    events.close()


def members_with_a_late_one(folder):
    """Two with the same classes, and one with a class that they do not have."""
    for number, labels in enumerate((["x", "y"], ["x", "y"], ["y", "rare"])):
        y = np.repeat(labels, 60)
        x = np.random.default_rng(1).normal(0, 0.2, (120, 3)) + np.repeat([[0], [2]], 60, axis=0)
        np.savez(folder / f"{number}.npz", x=x, y=y)
    return {
        k: member(folder, k, open_source({"dataset": str(folder / f"{k}.npz")}, False, print))
        for k in range(3)
    }


def test_a_party_that_joins_late_may_bring_classes_that_are_new(tmp_path):
    transport = InProcess(members_with_a_late_one(tmp_path))
    transport.away = {2}
    run, said = hosted(tmp_path, transport, {**SMALL, "tasks": 1, "min_clients": 2, "limit": None})
    events = []
    for event in run:
        events.append(event)
        if isinstance(event, Round) and event.round == 1:
            transport.away = set()
    assert run.labels == ("x", "y", "rare")
    assert Appeared(2, "rare", 2) in events
    assert len(run.server.model["head.bias"]) == 3
    rounds = [event.clients for event in events if isinstance(event, Round)]
    assert rounds[0] == [0, 1]
    assert [0, 1, 2] in rounds
    assert run.result().A is not None
    assert "hospital-c is connected" in said


def test_streams_ask_for_places_of_labels_and_heads_grow(tmp_path):
    folders = []
    for name, words in (("a", ["cat", "dog"]), ("b", ["Cat ", "bird"]), ("c", ["dog", "C at"])):
        folder = tmp_path / f"in-{name}"
        folder.mkdir()
        for part, word in enumerate(words):
            rows = "".join(f"{n % 7},{part * 3 + n % 3},{word}\n" for n in range(60))
            (folder / f"{part}.csv").write_text("u,v,label\n" + rows)
        folders.append(folder)
    values = {"idle": 0.3, "window": 5}
    sources = [open_source({"dataset": f"watch:{f}", **values}, False, lambda _: None)
               for f in folders]  # fmt: skip
    transport = InProcess({k: member(tmp_path, k, source) for k, source in enumerate(sources)})
    settings = {"method": "er", "memory": 20, "hidden": 8, "burn_in": 1, "q": 2, "patience": 0.5,
                "min_clients": 2}  # fmt: skip
    run, said = hosted(tmp_path, transport, settings, out=tmp_path / "run")
    events = list(run)
    appeared = [event.label for event in events if isinstance(event, Appeared)]
    assert sorted(appeared) == ["C at", "Cat", "bird", "cat", "dog"]
    assert [event.place for event in events if isinstance(event, Appeared)] == [0, 1, 2, 3, 4]
    alike = [line for line in said if "differ in case or spaces" in line]
    assert len(alike) == 2
    learned = {k: sum(e.samples for e in events if isinstance(e, Learned) and e.client == k)
               for k in range(3)}  # fmt: skip
    assert learned == {0: 120, 1: 120, 2: 120}
    assert len(run.server.model["head.bias"]) == 5
    assert run.settings.streams == ("at each party",) * 3
    assert run.directory.settings().streams == ("at each party",) * 3


@pytest.mark.parametrize("change", [{"batchnorm": "reset"}, {"batchnorm": "local"},
                                    {"protocol": "published"}], ids=str)  # fmt: skip
def test_statistics_that_do_not_travel_are_not_asked_for(tmp_path, change):
    values = {"method": "er", "memory": 20, "tasks": 2, "model": "slim-resnet18", "width": 2,
              "burn_in": 1, "q": 2, "limit": 4, "steps": 1, "min_clients": 3, **change}  # fmt: skip
    run, said = hosted(tmp_path, InProcess(members(tmp_path)), values)
    list(run)
    local = Run(make_settings({**values, "dataset": "digits", "clients": 3}))
    list(local)
    assert run.server.round == local.server.round > 1
    assert_same(run.server.model, local.server.model)
    assert not [line for line in said if "rejected" in line]


def test_a_late_party_starts_from_the_global_model_and_such_a_run_can_be_resumed(tmp_path):
    asked = []

    class Noting(InProcess):
        def send(self, party, content):
            if party == 2 and "request" in content:
                asked.append(list(content["request"]["steps"]))
            return super().send(party, content)

    transport = Noting(members_with_a_late_one(tmp_path))
    transport.away = {2}
    values = {**SMALL, "tasks": 1, "min_clients": 2, "limit": None}
    run, _ = hosted(tmp_path, transport, values, out=tmp_path / "run")
    for event in run:
        if isinstance(event, Round):
            transport.away = set()
            if 2 in event.clients:
                break
    assert asked[:2] == [["take"], ["take"]]  # it asked for a place, and was asked the same again
    assert run.labels == ("x", "y", "rare")
    stage = FederationStage(FEDERATION, tmp_path, transport)
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
    list(resumed)
    assert resumed.labels == ("x", "y", "rare")
    assert len(resumed.server.model["head.bias"]) == 3


# What goes wrong


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


WITHOUT_B = replace(FEDERATION, left=("hospital-b",))


def test_a_party_that_has_left_is_not_waited_for(tmp_path):
    transport = InProcess(members(tmp_path))
    transport.away = {1}
    run, said = hosted(tmp_path, transport, federation=WITHOUT_B)
    rounds = [event.clients for event in run if isinstance(event, Round)]
    assert rounds
    assert all(clients == [0, 2] for clients in rounds)
    assert "min_clients is 3; as parties have left, it is 2 now" in said
    assert not [line for line in said if "waiting" in line]
    result = run.result()
    assert result.A is not None
    assert [[value for row in rows for value in row if value is not None] == []
            for rows in result.accuracy] == [False, True, False]  # fmt: skip


def test_a_run_goes_on_without_a_party_that_leaves_and_ends(tmp_path):
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, {**SMALL, "min_clients": 2}, out=tmp_path / "run")
    for event in run:
        if isinstance(event, Round) and event.round == 3:
            break
    transport.away = {1}
    before = transport.members[1]._responder._client.learned
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None,
                         stage=FederationStage(WITHOUT_B, tmp_path, transport))  # fmt: skip
    rounds = [event.clients for event in resumed if isinstance(event, Round)]
    assert rounds[-1] == [0, 2]
    assert resumed.result().A is not None
    learned = [member._responder._client.learned for member in transport.members.values()]
    assert learned == [27, before, 27]


def test_one_party_alone_makes_no_round(tmp_path):
    alone = replace(FEDERATION, left=("hospital-a", "hospital-b"))
    with pytest.raises(OfclError, match="1 party takes part, and min_clients is 3: no round"):
        hosted(tmp_path, InProcess(members(tmp_path)), federation=alone)
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, out=tmp_path / "run")
    next(event for event in run if isinstance(event, Round))
    said = []
    resumed = Run.resume(tmp_path / "run", tell=said.append,
                         stage=FederationStage(alone, tmp_path, transport))  # fmt: skip
    assert not [event for event in resumed if isinstance(event, Round)]
    assert any("no round will happen any more" in line for line in said)


def test_a_share_of_the_parties_is_of_those_that_take_part(tmp_path):
    transport = InProcess(members(tmp_path))
    half = {**SMALL, "min_clients": 1, "participation": 0.5}
    run, _ = hosted(tmp_path, transport, half, federation=WITHOUT_B)
    rounds = [event.clients for event in run if isinstance(event, Round)]
    assert {tuple(clients) for clients in rounds} == {(0,), (2,)}
    assert run.settings.participation == 0.5


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
    assert transport.late > 1


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


def test_a_killed_server_goes_on_with_the_same_parties(tmp_path):
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, out=tmp_path / "run")
    for event in run:
        if isinstance(event, Round) and event.round == 3:
            break
    del run
    stage = FederationStage(FEDERATION, tmp_path, transport)
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
    list(resumed)
    _, server = locally()
    assert_same(resumed.server.model, server.model)
    assert stage.resume_command(tmp_path) == f"ofcl federation start {tmp_path} --resume"


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


def test_a_stream_that_fails_is_opened_again_and_nothing_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.federation.server_side.courier.AFTER_FAILURE", 0.1)
    monkeypatch.setattr("ofcl.federation.server_side.courier.LOOK_WHO", 0.05)
    folder = tmp_path / "in"
    folder.mkdir()
    rows = "".join(f"{n % 7},{n % 3},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "0.csv").write_text("u,v,label\n" + rows)
    (folder / "1.csv").write_text("u,v,label\n" + rows + "1,oops,a\n" + rows)
    values = {"idle": 0.3, "window": 5}
    transport = InProcess({
        k: member(tmp_path, k, open_source({"dataset": f"watch:{folder}", **values}, False, print))
        for k in range(3)
    })  # fmt: skip
    settings = {"method": "er", "memory": 20, "hidden": 8, "burn_in": 1, "q": 2, "patience": 0.5,
                "min_clients": 2}  # fmt: skip
    run, said = hosted(tmp_path, transport, settings)
    mended = "u,v,label\n" + rows + "1,2,a\n" + rows
    mending = threading.Timer(3.0, (folder / "1.csv").write_text, [mended])
    mending.start()
    counts = dict.fromkeys(range(3), 0)
    for event in run:
        if isinstance(event, Learned):
            counts[event.client] += event.samples
    mending.join()
    assert counts == {0: 181, 1: 181, 2: 181}
    assert any("could not answer" in line for line in said)


def test_two_introductions_lose_no_sample_of_a_stream_that_comes_once(monkeypatch):
    lines = "".join(json.dumps({"x": [n % 5, n % 3], "label": "ab"[n % 2]}) + "\n"
                    for n in range(30))  # fmt: skip
    read, write = os.pipe()
    os.write(write, lines.encode())
    os.close(write)
    with os.fdopen(read) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        source = open_source({"dataset": "-", "window": 2}, False, print)
        assert source.samples() == source.samples()
        made = make_settings({"method": "er", "hidden": 8, "batch_size": 4})
        terms = Terms(travelling_settings(made), 1, ("a", "b"), 0, source.samples())
        client = source.client(terms, 0, AssignedVocabulary(("a", "b")))
        seen = []
        while client.stream.ready() and client.stream.next_task() is not None:
            seen.append(len(next(client.stream).y))
    assert seen == [4] * 7 + [2]  # the run's mini-batches, not the party's


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


def test_a_wrong_clock_is_told_from_a_wrong_key():
    def refused(seconds):
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
        response = SimpleNamespace(status_code=401, headers={"date": date})
        caller = Caller("here:1", plain=False, tell=print, leaving=threading.Event())
        with pytest.raises(Refused) as error:
            caller.judge(SimpleNamespace(response=response))
        return str(error.value)

    assert re.search(r"clock here is (29|30|31) s ahead of", refused(-30))
    assert re.search(r"clock here is (399|400|401) s behind", refused(400))
    for near in (0, 60):  # Flower lets a clock be five minutes behind
        assert "does not know this party's key" in refused(near)


def test_memories_of_a_run_between_parties_are_at_the_parties(tmp_path):
    run, _ = hosted(tmp_path, InProcess(members(tmp_path)), out=tmp_path / "run")
    next(iter(run))
    with pytest.raises(OfclError, match="ofcl memory list PARTY"):
        memory_places(RunDirectory(tmp_path / "run"))


# Nobody is trusted


@pytest.mark.parametrize("change", [
    {"party": 5}, {"labels": [5]}, {"labels": "word"}, {"labels": ["a\nb"]},
    {"labels": ["x"] * 10_001}, {"samples": {}}, {"shape": [0, 8, 8]},
    {"shape": [1, 10**5, 10**5]}, {"shape": [8, 8]}, {"shape": None}, {"kind": "sound"},
    {"way": "guess"}, {"mean": [float("nan")]}, {"std": []},
], ids=str)  # fmt: skip
def test_an_introduction_that_cannot_be_is_rejected(tmp_path, change):
    state = over_the_wire(member(tmp_path, 0).answer({}))
    assert unpack_introduction(state).party == "hospital-a"
    inside = {name: value for name, value in change.items() if name in state["samples"]}
    samples = {**state["samples"], **inside}
    with pytest.raises(Rejected):
        unpack_introduction({**state, "samples": samples, **change} if not inside else
                            {**state, "samples": samples})  # fmt: skip


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


def test_parties_with_other_samples_are_named(tmp_path):
    digits = member(tmp_path, 0).answer({})
    other = {**over_the_wire(digits), "party": "hospital-b"}
    other["samples"] = {**other["samples"], "shape": [1, 9, 9]}
    found = {"hospital-a": unpack_introduction(over_the_wire(digits)),
             "hospital-b": unpack_introduction(other)}  # fmt: skip
    with pytest.raises(OfclError, match=r"hospital-b has other samples than hospital-a: shape"):
        agreed(found)


def request_of(run, **settings):
    """A message of the server as a party gets it."""
    terms = Terms({**travelling_settings(make_settings(SMALL)), **settings}, 3,
                  tuple("0123456789"), 10,
                  open_source({"dataset": "digits"}, True, print).samples())  # fmt: skip
    request = Request(run, 1, (), {}, {})
    return over_the_wire({"request": pack_request(request), "terms": pack(terms)})


@pytest.mark.parametrize("run", ["../outside", "/etc/x", "", "a/b", "A" * 65, "."])
def test_a_server_cannot_make_a_party_write_elsewhere(tmp_path, run):
    party = member(tmp_path / "in", 0)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OfclError, match="that cannot be"):
        party.answer(request_of(run))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_server_cannot_name_a_partys_paths_or_device(tmp_path):
    party = member(tmp_path, 0)
    evil = {"data_root": "/etc", "test": "/etc/passwd", "dataset": "fashion-mini", "device": "mps"}
    terms = unpack_terms(request_of("ab", **evil)["terms"])
    assert terms.settings["data_root"] == "/etc"
    settings = settings_here(terms, {"dataset": "digits"}, clients=3)
    assert (settings.data_root, settings.test, settings.dataset) == (None, None, "digits")
    assert settings.device == "auto"
    with pytest.raises(OfclError, match="unknown setting"):
        party.answer(request_of("ab", colour="red"))


def test_a_party_can_forget_one_sample_or_all(tmp_path):
    create(tmp_path / "f", FEDERATION)
    transport = InProcess(members(tmp_path / "f"))
    run, _ = hosted(tmp_path, transport)
    list(run)
    folder = tmp_path / "f" / "hospital-b"
    code, out, err = command("memory", "list", folder, cwd=tmp_path)
    assert code == 0, err
    rows = [line.split() for line in out.splitlines()[1:]]
    assert len(rows) == 40
    assert {row[0] for row in rows} == {"1"}
    assert {row[2] for row in rows} <= set("0123456789")
    code, out, err = command("memory", "forget", folder, "--id", rows[3][1], cwd=tmp_path)
    assert (code, out.strip()) == (0, f"client 1 has forgotten {rows[3][1]}"), err
    assert len(command("memory", "list", folder, cwd=tmp_path)[1].splitlines()) == 40
    assert command("memory", "clear", folder, cwd=tmp_path)[0] == 2
    code, out, err = command("memory", "clear", folder, "--yes", cwd=tmp_path)
    assert (code, out.strip()) == (0, "hospital-b has forgotten 1 runs"), err
    assert list((folder / "runs").iterdir()) == []


# What leaves a party


def test_settings_that_travel_name_no_path_and_nothing_that_a_party_decides():
    settings = make_settings({"dataset": "/home/x", "data_root": "/srv", "device": "cpu"})
    travelling = travelling_settings(settings)
    assert not set(AT_PARTY) & set(travelling)
    assert "/home" not in json.dumps(travelling)
    with pytest.raises(OfclError, match="dataset is decided by each party"):
        run_settings(FEDERATION, {"dataset": "digits"})
    with pytest.raises(OfclError, match="method is decided for all parties"):
        open_source({"dataset": "digits", "method": "er"}, False, print)


def test_what_is_told_of_events_is_no_more_than_needed():
    events = [
        Learned(0, 0, 1, 10, 2.0, 3), Remembered(0, 0, 1, [[0, 1, 5]]), Learned(0, 0, 1, 8, 1.0, 4),
        Skipped(0, "/secret/file.csv", 3, "bad"),
        Evaluated(0, 0, [[[4, 1, 2], [7, 3, 3]]], [[]], [[[4, 0, 2], [7, 1, 3]]]),
        Learned(0, 1, 1, 5, 9.0, 0),
    ]  # fmt: skip
    assert leaving(events, True) == [Learned(0, 0, 2, 18, 3.0, 7), events[4], events[5]]
    told = leaving(events, False)
    assert told[1] == Evaluated(0, 0, [[[-1, 4, 5]]], [[]], [[[-1, 1, 5]]])


def test_the_audit_file_lists_every_field_and_its_bytes(tmp_path):
    transport = InProcess(members(tmp_path))
    answers = []
    plain = transport.fetch

    def fetch(messages):
        found = plain(messages)
        answers.extend(a.content for a in found.values() if a.content.get("client") == 1)
        return found

    transport.fetch = fetch
    run, _ = hosted(tmp_path, transport)
    list(run)
    lines = [json.loads(line) for line in
             (tmp_path / "hospital-b" / "audit.jsonl").read_text().splitlines()]  # fmt: skip
    assert lines[0]["what"] == "introduction"
    assert [line["exchange"] for line in lines[1:]] == [a["exchange"] for a in answers]
    for line, answer in zip(lines[1:], answers, strict=True):
        named = {field["field"] for field in line["fields"]}
        assert named == {field["field"] for field in fields_of(answer)}
        if answer["update"]:
            tensors = {f"update.state.{name}" for name in answer["update"]["state"]}
            assert tensors <= named
            size = sum(t.numel() * 4 for t in answer["update"]["state"].values())
            counted = [f["bytes"] for f in line["fields"] if f["field"] in tensors]
            assert sum(counted) == size
        assert line["bytes"] == sum(field["bytes"] for field in line["fields"])
    fields = {field["field"].split(".")[0] for line in lines[1:] for field in line["fields"]}
    assert fields == {"run", "exchange", "client", "status", "learned", "released", "events",
                      "update", "labels"}  # fmt: skip


def test_the_audit_line_is_there_before_the_answer(tmp_path, monkeypatch):
    party = member(tmp_path, 0)
    monkeypatch.setattr(Audit, "write", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        party.answer({})


def test_without_class_counts_weighted_averaging_is_fedavg(tmp_path):
    settings = {**SMALL, "aggregation": "weighted"}
    silent = InProcess(members(tmp_path / "a", class_counts=False))
    run, _ = hosted(tmp_path, silent, settings)
    events = list(run)
    _, plain = locally(aggregation="fedavg")
    assert_same(run.server.model, plain.model)
    for event in events:
        if isinstance(event, Evaluated):
            assert {row[0] for task in event.test for row in task} == {-1}
    _, weighted = locally(aggregation="weighted")
    assert not torch.equal(weighted.model["hidden.weight"], plain.model["hidden.weight"])
    updates = [Update(0, {"w": torch.tensor([1.0])}, 3, {0: 3}),
               Update(1, {"w": torch.tensor([4.0])}, 1, {})]  # fmt: skip
    assert torch.equal(weighted_fedavg(updates)["w"], fedavg(updates)["w"])


def test_the_noise_of_privacy_does_not_come_from_the_seed_that_the_server_knows(tmp_path):
    settings = {**SMALL, "dp_clip": 1.0, "dp_noise": 0.5}
    models = []
    for part in ("a", "b"):
        run, _ = hosted(tmp_path, InProcess(members(tmp_path / part)), settings)
        list(run)
        models.append(run.server.model["hidden.weight"])
        assert run.epsilon() > 0
    assert not torch.equal(*models)


# What is kept


def test_a_sealed_party_leaves_nothing_that_can_be_read(tmp_path):
    seal = Seal(bytes(range(32)))
    open_transport = InProcess(members(tmp_path / "open"))
    sealed_transport = InProcess(members(tmp_path / "sealed", seal=seal))
    for transport in (open_transport, sealed_transport):
        run, _ = hosted(tmp_path, transport, {**SMALL, "method": "er"})
        list(run)
    folder = next((tmp_path / "sealed" / "hospital-a" / "runs").iterdir())
    state = load_checkpoint(folder, pytest.fail, seal).state
    sample = state["client"]["learner"]["memory"]["x"][0].numpy().tobytes()

    def holding(part):
        files = (p for p in (tmp_path / part).rglob("*") if p.is_file())
        return [p for p in files if sample in p.read_bytes()]

    assert holding("open")
    assert holding("sealed") == []
    with pytest.raises(OfclError, match="is encrypted; give the file of its key"):
        load_checkpoint(folder, pytest.fail)
    said = []
    with pytest.raises(OfclError, match="every checkpoint"):
        load_checkpoint(folder, said.append, Seal(bytes(32)))
    assert "sealed with another key" in said[0]


def test_key_files(tmp_path):
    path = tmp_path / "key"
    with pytest.raises(OfclError, match="openssl rand -hex 32"):
        Seal.from_file(path)
    path.write_text("ab" * 32)
    path.chmod(0o644)
    with pytest.raises(OfclError, match="others can read"):
        Seal.from_file(path)
    path.chmod(0o600)
    assert Seal.from_file(path).opened(Seal.from_file(path).sealed(b"x")) == b"x"
    path.write_text("short")
    with pytest.raises(OfclError, match="64 hexadecimal digits"):
        Seal.from_file(path)


def test_what_was_open_is_gone_when_a_party_is_sealed(tmp_path):
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, out=tmp_path / "run")
    for event in run:
        if isinstance(event, Round) and event.round == 2:
            break
    seal = Seal(bytes(32))
    transport.members = members(tmp_path, seal=seal)
    list(Run.resume(tmp_path / "run", stage=FederationStage(FEDERATION, tmp_path, transport)))
    left = [p.name for p in (tmp_path / "hospital-a" / "runs").rglob("*") if p.is_file()]
    assert sorted(set(left)) == ["state.sealed", "tensors.sealed"]


def test_what_other_runs_have_left_is_sealed_too(tmp_path):
    for _ in range(2):
        run, _ = hosted(tmp_path, InProcess(members(tmp_path)))
        list(run)
    runs = tmp_path / "hospital-a" / "runs"
    assert len(list(runs.iterdir())) == 2
    seal = Seal(bytes(32))
    before = [load_checkpoint(folder, pytest.fail).events for folder in sorted(runs.iterdir())]
    seal_saved(runs, seal)
    names = {p.name for p in runs.rglob("*") if p.is_file()}
    assert names == {"state.sealed", "tensors.sealed"}
    after = [load_checkpoint(f, pytest.fail, seal).events for f in sorted(runs.iterdir())]
    assert after == before


def test_what_is_damaged_cannot_be_sealed_and_is_named(tmp_path):
    for events in (1, 2):
        save_checkpoint(tmp_path / "run", Checkpoint(events, 0.0, {"secret": f"of {events}"}))
    damaged = tmp_path / "run" / "000000001"
    (damaged / "tensors.safetensors").write_bytes(b"")
    said = []
    for _ in range(2):
        seal_saved(tmp_path, Seal(bytes(32)), said.append)
    assert said == [f"'{damaged}' is damaged and could not be encrypted: delete it"] * 2
    assert sorted(p.name for p in (tmp_path / "run" / "000000002").iterdir()) == [
        "state.sealed", "tensors.sealed",
    ]  # fmt: skip


def test_a_forgotten_row_of_a_table_is_in_no_file(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    rows = "".join(f"{n * 1.125 + 1000},{n % 3},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "0.csv").write_text("u,v,label\n" + rows)
    values = {"dataset": f"watch:{folder}", "idle": 0.3, "window": 20}
    transport = InProcess(
        {k: member(tmp_path, k, open_source(values, False, print)) for k in range(3)}
    )
    settings = {"method": "er", "memory": 60, "hidden": 8, "burn_in": 1, "q": 2, "patience": 0.5,
                "min_clients": 2}  # fmt: skip
    run, _ = hosted(tmp_path, transport, settings)
    list(run)
    (state,) = (tmp_path / "hospital-a" / "runs").iterdir()
    saved = load_checkpoint(state, pytest.fail).state["client"]
    assert sorted(saved["stream"]["form"]) == ["mean", "scale"]
    assert saved["stream"]["form"]["mean"].shape == (2,)


# Folders, keys, labels


def test_init_makes_folders_with_secrets_that_only_their_owner_reads(tmp_path):
    federation = Federation("trial", ("a", "b"), ("learn.example.org", "10.0.0.7"), 9443)
    create(tmp_path / "f", federation)
    server, party = load_server(tmp_path / "f"), load_party(tmp_path / "f" / "b")
    assert server.federation == federation
    assert (party.party, party.number, party.server) == ("b", 1, "learn.example.org:9443")
    for path in (server.key, server.secret, party.key, tmp_path / "f/server/admin.token",
                 tmp_path / "f/authority/ca.key"):  # fmt: skip
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "ofcl federation client b" in (tmp_path / "f" / "b" / "README.md").read_text()
    names = {p.name for p in (tmp_path / "f" / "b").iterdir()}
    assert names == {"key", "ca.crt", "party.toml", "README.md"}
    with pytest.raises(OfclError, match="exists"):
        create(tmp_path / "f", federation)
    with pytest.raises(OfclError, match="not a federation"):
        load_server(tmp_path)
    with pytest.raises(OfclError, match="not a party's folder"):
        load_party(tmp_path)


def test_the_certificate_is_for_the_server_and_signed_by_the_authority(tmp_path):
    from cryptography import x509

    create(tmp_path / "f", Federation("trial", ("a",), ("learn.example.org", "10.0.0.7"), 9443))
    server = load_server(tmp_path / "f")
    authority = x509.load_pem_x509_certificate(server.authority.read_bytes())
    certificate = x509.load_pem_x509_certificate(server.certificate.read_bytes())
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["learn.example.org", "localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == [
        "10.0.0.7", "127.0.0.1"]  # fmt: skip


def test_parties_come_and_leave(tmp_path):
    folder = tmp_path / "f"
    create(folder, Federation("trial", ("a", "b"), ("127.0.0.1",), 9443))
    add_party(folder, "c")
    remove_party(folder, "b")
    server = load_server(folder)
    assert server.federation.parties == ("a", "b", "c")
    assert server.federation.present == ("a", "c") == tuple(server.public_keys())
    assert server.federation.gone == {1}
    assert all(path.exists() for path in server.public_keys().values())
    assert not (folder / "server" / "keys" / "b.pub").exists()
    party = load_party(folder / "c")
    assert (party.party, party.number) == ("c", 2)
    assert party.authority.read_bytes() == server.authority.read_bytes()
    assert stat.S_IMODE(party.key.stat().st_mode) == 0o600
    for change, name, message in (
        (add_party, "c", "the same name"), (add_party, "b", "has left"),
        (add_party, "runs", "cannot be called"), (remove_party, "b", "unknown party 'b'"),
        (remove_party, "nobody", "unknown party 'nobody'"),
    ):  # fmt: skip
        with pytest.raises(OfclError, match=message):
            change(folder, name)
    remove_party(folder, "a")
    with pytest.raises(OfclError, match="'c' is the only party"):
        remove_party(folder, "c")


def test_the_servers_certificate_is_renewed_before_it_expires(tmp_path, monkeypatch):
    from cryptography import x509

    folder = tmp_path / "f"
    monkeypatch.setattr(keys, "DAYS", 20)
    create(folder, Federation("trial", ("a",), ("learn.example.org",), 9443))
    server = load_server(folder)
    assert "good for 19 more days: ofcl federation renew" in server.expiry()
    monkeypatch.setattr(keys, "DAYS", 0)
    renew(folder)
    assert "has expired" in server.expiry()
    monkeypatch.setattr(keys, "DAYS", 825)
    old = server.key.read_bytes()
    renew(folder, ["learn.example.net"])
    assert server.expiry() is None
    assert load_server(folder).federation.hosts == ("learn.example.net",)
    assert server.key.read_bytes() != old
    assert stat.S_IMODE(server.key.stat().st_mode) == 0o600
    authority = x509.load_pem_x509_certificate((folder / "a" / "ca.crt").read_bytes())
    certificate = x509.load_pem_x509_certificate(server.certificate.read_bytes())
    certificate.verify_directly_issued_by(authority)  # the one that parties were handed
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["learn.example.net", "localhost"]
    create(tmp_path / "g", Federation("other", ("a",), ("learn.example.org",), 9443))
    shutil.rmtree(folder / "authority")
    shutil.copytree(tmp_path / "g" / "authority", folder / "authority")
    with pytest.raises(OfclError, match="not the one that the parties were handed"):
        renew(folder)
    shutil.rmtree(folder / "authority")
    with pytest.raises(OfclError, match="bring it back"):
        renew(folder)
    certificate.verify_directly_issued_by(authority)
    assert x509.load_pem_x509_certificate(server.certificate.read_bytes()) == certificate


@pytest.mark.parametrize(("parties", "message"), [
    ((), "needs parties"), (("a b",), "cannot name a party"), (("../x",), "cannot name a party"),
    (("server",), "cannot be called"), (("a", "A"), "the same name"),
])  # fmt: skip
def test_names_that_cannot_be(tmp_path, parties, message):
    with pytest.raises(OfclError, match=message):
        create(tmp_path / "f", Federation("x", parties, ("127.0.0.1",), 8000))


@pytest.mark.parametrize(("host", "expected"), [
    ("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("127.9.9.9", True),
    ("0.0.0.0", False), ("10.0.0.1", False), ("localhost.example.org", False), ("", False),
])  # fmt: skip
def test_what_is_this_machine_alone(host, expected):
    assert is_loopback(host) is expected


def test_where_a_server_listens_is_where_its_own_commands_find_it(tmp_path):
    create(tmp_path / "f", Federation("x", ("a",), ("10.0.0.7", "learn.example.org"), 9443))
    server = load_server(tmp_path / "f")
    assert server.here == "127.0.0.1:9443"
    for host, here in (("10.0.0.7", "10.0.0.7"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"),
                       ("localhost", "127.0.0.1")):  # fmt: skip
        server.listen_on(host)
        assert server.here == f"{here}:9443"
    with pytest.raises(OfclError, match="the certificate is not for '10.0.0.8'"):
        server.listen_on("10.0.0.8")


def test_methods_that_send_more_than_the_model_cannot_be_private(tmp_path):
    values = {"method": "fedcil", "dp_clip": 1.0, "min_clients": 3}
    with pytest.raises(OfclError, match="fedcil sends more than the model"):
        hosted(tmp_path, InProcess(members(tmp_path)), values)


def test_a_party_runs_once(tmp_path):
    create(tmp_path / "f", FEDERATION)
    party = load_party(tmp_path / "f" / "hospital-a")
    with party.used(), pytest.raises(OfclError, match="hospital-a is running"), party.used():
        pass
    with party.used():
        pass


def test_labels_that_look_alike_are_pointed_out():
    said = []
    labels = LabelSpace(("Type 1", "b"), said.append)
    assert labels.place("type1") == 2
    assert labels.place("b") == 1
    assert len(said) == 1
    assert "'Type 1' and 'type1'" in said[0]


def test_labels_that_come_late_are_in_the_last_task():
    y = np.repeat(np.arange(5), 20)
    early = build_scenario(y[y < 4], y[y < 4], 4, seed=0, clients=1, tasks=2)
    late = build_scenario(y, y, 4, seed=0, clients=1, tasks=2)
    assert late[0].tasks[0] == early[0].tasks[0]
    assert late[0].tasks[1] == (*early[0].tasks[1], 4)
    assert {int(c) for c in y[late[0].train[1]]} == {*early[0].tasks[1], 4}


def test_a_form_packs_and_unpacks(tmp_path):
    source = open_source({"dataset": "digits"}, True, lambda _: None)
    assert Samples.of(source._dataset, "dataset") == source.samples()
    introduction = unpack_introduction(over_the_wire(member(tmp_path, 2, source).answer({})))
    assert pack(introduction)["party"] == "hospital-c"
    assert introduction.samples == source.samples()
    assert introduction.labels == tuple("0123456789")


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
