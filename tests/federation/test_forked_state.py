"""A far update and a run that is resumed; a party's folder that was copied."""

import shutil

from ofcl.events import Learned, Round
from ofcl.experiment import Run
from ofcl.federation.party_side import member as member_module
from ofcl.federation.server_side.stage import FederationStage
from tests.federation.test_trust import Spoiling, far
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
