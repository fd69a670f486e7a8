"""A far update and a run that is resumed; a party's folder that was copied."""

import shutil

import pytest

from ofcl import OfclError
from ofcl.events import Learned, Round
from ofcl.experiment import Run
from ofcl.federation.party_side import member as member_module
from ofcl.federation.server_side.stage import FederationStage
from tests.federation.test_told import last_message
from tests.federation.test_trust import Spoiling, far, table
from tests.support.federation import FEDERATION, SMALL, InProcess, hosted, member, members

SETTINGS = {**SMALL, "min_clients": 2}


def test_after_a_far_update_a_run_is_resumed_without_its_sender(tmp_path):
    """Before updates were bounded, the saved model was spoilt: no round came any more."""
    run, said = hosted(tmp_path, Spoiling(members(tmp_path), far), SETTINGS, out=tmp_path / "run")
    next(event for event in run if isinstance(event, Round) and event.round == 3)
    assert any(line.startswith("hospital-c: its update goes ") for line in said)
    del run
    transport = InProcess(members(tmp_path))
    transport.away.add(2)
    stage = FederationStage(FEDERATION, tmp_path, transport)
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
    rounds = 0
    for event in resumed:
        rounds += isinstance(event, Round)
        if rounds == 3:
            break
    assert rounds == 3
    assert max(float(tensor.abs().max()) for tensor in resumed.server.model.values()) < 100


class Two(InProcess):
    """A transport on which two processes of the last party answer in turns."""

    both, turn = (), 0

    def fetch(self, messages):
        if self.both:
            self.turn += 1
            self.members[2] = self.both[self.turn % 2]
        return super().fetch(messages)


def test_a_copied_folder_beside_the_original_learns_nothing_twice(tmp_path, monkeypatch):
    """Before, the party learned 51 mini-batches instead of 27, and nobody was told."""
    monkeypatch.setattr(member_module, "LOST_WAIT", 0.0)
    transport, told, learned = Two(members(tmp_path)), [], 0
    run, said = hosted(tmp_path, transport, SETTINGS)
    for event in run:
        if isinstance(event, Round) and not transport.both:
            shutil.copytree(tmp_path / "hospital-c", tmp_path / "copy" / "hospital-c")
            transport.both = member(tmp_path, 2), member(tmp_path / "copy", 2)
            for party in transport.both:
                party._tell = told.append
        if isinstance(event, Learned) and event.client == 2:
            learned += event.batches
    assert learned == 27
    assert any("its state is lost or runs elsewhere, too" in line for line in said)
    assert any("a copy of this folder takes part elsewhere" in line for line in told)


def test_a_damaged_newest_state_is_noticed_though_the_one_before_is_whole(tmp_path, monkeypatch):
    """Before, the party learned its last mini-batches a second time, and nobody was told."""
    monkeypatch.setattr(member_module, "LOST_WAIT", 0.0)
    transport, told = InProcess(members(tmp_path)), []
    run, said = hosted(tmp_path, transport, SETTINGS)
    learned, decided = 0, False
    for event in run:
        if isinstance(event, Learned) and event.client == 2:
            learned += event.batches
        if isinstance(event, Round) and event.round == 2 and not told:
            newest = max((tmp_path / "hospital-c" / "runs").glob("*/0*"))
            for file in newest.glob("*.safetensors"):
                file.write_bytes(b"damaged")
            transport.members[2] = member(tmp_path, 2)
            transport.members[2]._tell = told.append
        if not decided and any("its state is lost" in line for line in said):
            decided = True
            transport.members[2] = member(tmp_path, 2, accept_loss=True)
            transport.members[2]._tell = told.append
    assert any("hospital-c has 3 mini-batches of the 6 it has told of" in line for line in said)
    assert any("start once with --accept-loss" in line for line in told)
    assert learned == 27 + 3  # those that it has learned again, after it was told


def test_other_data_of_the_same_form_are_noticed_on_both_sides(tmp_path, monkeypatch):
    """Before, a party without its state could go on with other data, and nobody was told."""
    monkeypatch.setattr(member_module, "LOST_WAIT", 0.0)
    transport = InProcess({k: member(tmp_path, k, table(tmp_path, k)) for k in range(3)})
    change = {**SETTINGS, "tasks": 1, "batch_size": 6}
    run, said = hosted(tmp_path, transport, change)
    other, begun_anew = table(tmp_path, 7), False
    for event in run:
        if isinstance(event, Round) and not begun_anew:
            begun_anew = True
            party = member(tmp_path, 2, other)  # with the saved state
            with pytest.raises(OfclError, match="not the one with which run .* was begun"):
                party.answer(last_message(run))
            shutil.rmtree(tmp_path / "hospital-c" / "runs")  # and without it
            transport.members[2] = member(tmp_path, 2, other, accept_loss=True)
    assert any("hospital-c" in line and "learns from other data" in line for line in said)
