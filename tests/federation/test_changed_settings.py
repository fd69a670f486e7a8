"""Settings that change while a run between parties goes on."""

import itertools
import math

import pytest
import torch

from ofcl import OfclError
from ofcl.events import Changed, Learned, Round, from_json
from ofcl.experiment import Run
from ofcl.federation.party_side.party_policy import Policy
from ofcl.federation.server_side import courier
from ofcl.federation.server_side.orders import Orders
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.stage import FederationStage
from ofcl.storage.run_directory import RunDirectory
from tests.support.federation import FEDERATION, SMALL, InProcess, member, members
from tests.support.remote import over_the_wire

CALM = {**SMALL, "tasks": 1, "limit": 30, "lr": 0.1}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(courier, "LOOK_WHO", 0.001)
    monkeypatch.setattr(courier, "LOOK_AGAIN", 0.001)
    monkeypatch.setattr(courier, "AFTER_FAILURE", 0.01)


def stage_of(tmp_path, transport, out):
    return FederationStage(FEDERATION, tmp_path, transport, orders=Orders(out).read)


def begun(tmp_path, transport, settings=CALM):
    out, said = tmp_path / "run", []
    made = run_settings(FEDERATION, settings)
    run = Run(made, out=out, stage=stage_of(tmp_path, transport, out), tell=said.append)
    return run, said


def resumed(tmp_path, transport, said):
    out = tmp_path / "run"
    return Run.resume(out, stage=stage_of(tmp_path, transport, out), tell=said.append)


def order_after(run, rounds, values):
    """Iterates over a run, and orders a change after a round."""
    for event in run:
        if isinstance(event, Round) and event.round == rounds:
            Orders(run.directory.path).add(run.settings, values)
        yield event


def stretches(events):
    """Mini-batches of client 0 between two rounds."""
    counts = [0]
    for event in events:
        if isinstance(event, Learned) and event.client == 0:
            counts[-1] += event.batches
        if isinstance(event, Round):
            counts.append(0)
    return counts


def test_q_changes_at_the_next_round_for_all_and_every_log_says_so(tmp_path):
    told = []
    parties = members(tmp_path)
    parties[1] = member(tmp_path, 1)
    parties[1]._tell = told.append
    run, said = begun(tmp_path, InProcess(parties))
    events = list(order_after(run, 2, {"q": 6}))
    changes = [n for n, event in enumerate(events) if isinstance(event, Changed)]
    assert [events[n] for n in changes] == [Changed({"q": 6})]
    assert stretches(events) == [3, 3, 6, 6, 6, 6, 0]  # 30 mini-batches, then no more
    assert "from the next requests on: q is 6" in said
    lines = [line for line in told if "changed settings" in line]
    assert lines == [
        "the organiser has changed settings of the run: from now on q is 6 (before: q is 3)"
    ]
    assert run.bundle().description.learned.settings["q"] == 6


def test_a_learning_rate_of_nearly_nothing_stops_learning(tmp_path):
    run, _ = begun(tmp_path, InProcess(members(tmp_path)), {**CALM, "previous": 0.0})
    models = []
    for event in order_after(run, 3, {"lr": 1e-12}):
        if isinstance(event, Round):
            models.append({name: value.clone() for name, value in run.server.model.items()})
    moves = [
        max(float((a[name] - b[name]).abs().max()) for name in a)
        for a, b in itertools.pairwise(models)
    ]
    assert min(moves[:2]) > 1e-4
    assert max(moves[3:]) < 1e-6


@pytest.mark.parametrize("at", ["order", "change", "round"])
def test_killed_and_resumed_it_comes_out_the_same(tmp_path, at):
    """Server and parties are started anew: before the order is taken, after it, a round later."""
    whole, _ = begun(tmp_path / "whole", InProcess(members(tmp_path / "whole")))
    list(order_after(whole, 2, {"lr": 0.02, "q": 6}))
    folder = tmp_path / "killed"
    run, said = begun(folder, InProcess(members(folder)))
    for event in order_after(run, 2, {"lr": 0.02, "q": 6}):
        if at == "order" and isinstance(event, Round) and event.round == 2:
            break
        if at == "change" and isinstance(event, Changed):
            break
        if at == "round" and isinstance(event, Round) and event.round == 3:
            break
    run.close()
    again = resumed(folder, InProcess(members(folder)), said)
    list(again)
    for name, value in whole.server.model.items():
        assert torch.equal(again.server.model[name], value)
    events = [from_json(event) for event in RunDirectory(folder / "run").events()]
    assert events.count(Changed({"lr": 0.02, "q": 6})) == 1


def test_a_policy_refuses_and_the_run_goes_on_when_it_is_changed_back(tmp_path):
    told = []
    parties = members(tmp_path)
    ranges = {"batch_size": (2, 10**6), "lr": (0.05, 1.0)}
    lines = {"lr": "line 20: lr = [0.05, 1.0]"}
    parties[1] = member(tmp_path, 1, policy=Policy(ranges=ranges, lines=lines, most_clip=math.inf))
    transport = InProcess(parties)
    run, said = begun(tmp_path, transport)
    refuse = parties[1].answer

    def answer(message):
        try:
            return refuse(message)
        except OfclError as error:
            told.append(str(error))
            if len(told) == 1:  # min_clients is 3: the run waits for this party
                Orders(run.directory.path).add(run.settings, {"lr": 0.1})
            raise

    parties[1].answer = answer
    events = list(order_after(run, 2, {"lr": 0.01}))
    assert told[0] == (
        "refused by your policy: lr of the run is 0.01; policy.toml says: line 20: lr = [0.05, 1.0]"
    )
    assert "hospital-b could not answer; its own log says why" in said
    assert [event for event in events if isinstance(event, Changed)] == [
        Changed({"lr": 0.01}),
        Changed({"lr": 0.1}),
    ]
    assert sum(stretches(events)) == 30


def test_buffered_rounds_take_orders_too(tmp_path):
    settings = {**CALM, "rounds": "buffered", "buffer": 1}
    parties = members(tmp_path)
    ranges = {"batch_size": (2, 10**6), "q": (1, 5)}
    parties[2] = member(tmp_path, 2, policy=Policy(ranges=ranges))
    run, said = begun(tmp_path, InProcess(parties), settings)
    ordered_back = False
    counts = {0: [], 2: []}
    for event in order_after(run, 6, {"q": 6}):
        if isinstance(event, Learned) and event.client in counts:
            counts[event.client].append(event.batches)
        refused = "hospital-c could not answer; its own log says why" in said
        if refused and isinstance(event, Round) and event.round == 10:
            Orders(run.directory.path).add(run.settings, {"q": 3})
            ordered_back = True
    assert ordered_back
    assert 6 in counts[0]
    assert counts[0][-1] == 3
    assert set(counts[2]) == {3}
    assert sum(counts[2]) == 30


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"memory": 10}, "memory cannot be changed within a run"),
        ({"lrr": 1}, "unknown setting 'lrr'"),
        ({"lr": -1.0}, "lr"),
        ({}, "nothing to change"),
        ({"q": 0}, "q"),
    ],
)
def test_orders_that_cannot_be_are_refused(tmp_path, values, words):
    made = run_settings(FEDERATION, CALM)
    with pytest.raises(OfclError, match=words):
        Orders(tmp_path).add(made, values)
    assert Orders(tmp_path).read() == []


def test_a_party_lets_no_other_setting_change(tmp_path):
    party = member(tmp_path, 0)
    transport = InProcess({0: party, **{n: member(tmp_path, n) for n in (1, 2)}})
    run, _ = begun(tmp_path, transport)
    kept = {}

    def send(number, content, send=transport.send):
        kept[number] = over_the_wire(content)
        return send(number, content)

    transport.send = send
    for event in run:
        if isinstance(event, Round):
            break
    run.close()
    request = {**kept[0]["request"], "changed": {"dp_noise": 0.0}}
    with pytest.raises(OfclError, match="changed 'dp_noise' within a run; it is refused"):
        party.answer({**kept[0], "request": request})
