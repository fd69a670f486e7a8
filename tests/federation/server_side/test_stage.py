"""A run between parties: the same learner as in one process, whoever joins late or leaves."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ofcl import OfclError, make_settings
from ofcl.events import Appeared, Evaluated, Round
from ofcl.experiment import Run
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.server_side.stage import FederationStage
from ofcl.storage.memories import memory_places
from ofcl.storage.run_directory import RunDirectory
from tests.support.federation import (
    FEDERATION,
    PARTIES,
    SMALL,
    WITHOUT_B,
    InProcess,
    hosted,
    locally,
    member,
    members,
)
from tests.support.remote import assert_same


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


def test_parties_learn_bit_for_bit_as_clients_of_one_process(tmp_path):
    run, said = hosted(tmp_path, InProcess(members(tmp_path)))
    events = list(run)
    expected, server = locally()
    assert_same(run.server.model, server.model)
    assert [e for e in events if isinstance(e, Round)] == [
        e for e in expected if isinstance(e, Round)
    ]
    told = [replace(e, confusions=[]) for e in expected if isinstance(e, Evaluated)]
    assert sorted(map(str, told)) == sorted(str(e) for e in events if isinstance(e, Evaluated))
    assert run.settings.dataset == "trial"
    assert said == [f"{name} is connected" for name in PARTIES]


@pytest.mark.parametrize("compress", ["none", "topk:0.2"])
def test_a_party_that_joins_late_may_bring_classes_that_are_new(tmp_path, compress):
    transport = InProcess(members_with_a_late_one(tmp_path))
    transport.away = {2}
    change = {"tasks": 1, "min_clients": 2, "limit": None, "compress": compress}
    run, said = hosted(tmp_path, transport, {**SMALL, **change})
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
    assert not [line for line in said if "rejected" in line]


@pytest.mark.parametrize("change", [{"batchnorm": "reset"}, {"batchnorm": "local"},
                                    {"protocol": "published"}], ids=str)  # fmt: skip
def test_statistics_that_do_not_travel_are_not_asked_for(tmp_path, change):
    values = {"protocol": "sound", "method": "er", "memory": 20, "tasks": 2, "width": 2,
              "model": "slim-resnet18", "burn_in": 1, "q": 2, "limit": 4, "steps": 1,
              "min_clients": 3, **change}  # fmt: skip
    run, said = hosted(tmp_path, InProcess(members(tmp_path)), values)
    list(run)
    local = Run(make_settings({**values, "dataset": "digits", "clients": 3}))
    list(local)
    assert run.server.round == local.server.round > 1
    assert_same(run.server.model, local.server.model)
    assert not [line for line in said if "rejected" in line]


def test_parties_under_strong_hold_their_last_round_when_all_have_ended(tmp_path):
    values = {"memory": 20, "tasks": 2, "model": "mlp", "hidden": 16, "limit": 6, "steps": 2,
              "min_clients": 3}  # fmt: skip
    run, said = hosted(tmp_path, InProcess(members(tmp_path)), values)
    events = list(run)
    assert run.settings.closing_round == "end"
    assert isinstance(events[-1], Evaluated)  # after the last round
    chosen = {name: getattr(run.settings, name) for name in ("q", "loss", "distil", "previous")}
    local = Run(make_settings({**values, **chosen, "closing_round": "end", "dataset": "digits",
                               "clients": 3}))  # fmt: skip
    list(local)
    assert run.server.round == local.server.round > 2
    for name, value in local.server.model.items():
        assert torch.allclose(value, run.server.model[name], atol=1e-4)
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


@pytest.mark.parametrize("compress", ["none", "int8"])
def test_a_killed_server_goes_on_with_the_same_parties(tmp_path, compress):
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, {**SMALL, "compress": compress}, out=tmp_path / "run")
    for event in run:
        if isinstance(event, Round) and event.round == 3:
            break
    del run
    stage = FederationStage(FEDERATION, tmp_path, transport)
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
    list(resumed)
    _, server = locally(compress=compress)
    assert_same(resumed.server.model, server.model)
    assert stage.resume_command(tmp_path) == f"ofcl federation start {tmp_path} --resume"


def test_memories_of_a_run_between_parties_are_at_the_parties(tmp_path):
    run, _ = hosted(tmp_path, InProcess(members(tmp_path)), out=tmp_path / "run")
    next(iter(run))
    with pytest.raises(OfclError, match="ofcl memory list PARTY"):
        memory_places(RunDirectory(tmp_path / "run"))


def test_methods_that_send_more_than_the_model_cannot_be_private(tmp_path):
    values = {"method": "fedcil", "dp_clip": 1.0, "min_clients": 3}
    with pytest.raises(OfclError, match="fedcil sends more than the model"):
        hosted(tmp_path, InProcess(members(tmp_path)), values)


def test_an_unknown_method_is_refused_before_anybody_is_waited_for(tmp_path):
    class Nobody(InProcess):
        def connected(self):
            raise AssertionError("the parties were waited for")

    with pytest.raises(OfclError, match="unknown method 'bii'"):
        hosted(tmp_path, Nobody({}), {**SMALL, "method": "bii"})
