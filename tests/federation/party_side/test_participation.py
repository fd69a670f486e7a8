"""A party takes part over any connection; with a key, all that it saves is encrypted."""

import json
import threading

import pytest

from ofcl import OfclError
from ofcl.events import Round
from ofcl.experiment import Run
from ofcl.federation.party_side import participation
from ofcl.federation.party_side.participation import seal_saved, take_part
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import load_party
from ofcl.federation.setup.organiser import create
from ofcl.federation.signing import Signer
from ofcl.storage.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from ofcl.storage.encryption import Seal
from tests.support.federation import FEDERATION, SMALL, InProcess, hosted, members
from tests.support.remote import over_the_wire


class InProcessConnection:
    """A connection without a network: one message to be answered, and one failure."""

    def __init__(self, log, signer):
        self.log, self.signer = log, signer

    def __enter__(self):
        self.log.append("entered")
        return self

    def __exit__(self, *error):
        self.log.append("left")

    def serve(self, answer, failed):
        message = over_the_wire(self.signer.signed({}, "hospital-b"))
        self.log.append(answer(message).tree["party"])
        with pytest.raises(OfclError, match="without a signature"):
            answer({})
        failed()


def test_a_party_takes_part_over_any_connection(tmp_path, monkeypatch):
    create(tmp_path / "trial", FEDERATION)
    party = load_party(tmp_path / "trial" / "hospital-b")
    log = []
    signer = Signer((tmp_path / "trial" / "server" / "signing.key").read_bytes())

    def make(folder, address, **how):
        assert (folder, address) == (party, "127.0.0.1:8000")
        assert how.keys() == {"insecure", "tell", "leaving"}
        return InProcessConnection(log, signer)

    monkeypatch.setattr(participation, "make_connection", make)
    take_part(party, {"dataset": "digits"}, leaving=threading.Event(), tell=log.append)
    assert log == [
        f"the limits of '{party.folder}/policy.toml' hold",
        "entered", "connected to 127.0.0.1:8000", "introduced itself", "hospital-b", "left",
    ]  # fmt: skip
    audit = (party.folder / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["what"] for line in audit] == ["introduction", "failure"]


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
