"""Messages of the server are signed: parties follow no others."""

import pytest
import torch

from ofcl import OfclError
from ofcl.federation.server_side.signed_transport import SignedTransport
from ofcl.federation.setup.folders import load_server
from ofcl.federation.setup.organiser import create, ensure_signing_key
from ofcl.federation.signing import PUBLIC, Signer, Verifier
from tests.support.federation import FEDERATION, PARTIES, InProcess, hosted, members
from tests.support.remote import over_the_wire


@pytest.fixture
def trial(tmp_path):
    create(tmp_path / "trial", FEDERATION)
    return tmp_path / "trial"


def keys(trial, party="hospital-a"):
    signer = Signer((trial / "server" / "signing.key").read_bytes())
    return signer, Verifier.of_folder(trial / party, party)


MODEL = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3),
         "half": torch.ones(2, dtype=torch.bfloat16)}  # fmt: skip
CONTENT = {"request": {"steps": ("take",), "model": MODEL}, "x": 0.1}


def test_signed_messages_arrive_as_they_were_sent(trial):
    signer, verifier = keys(trial)
    came = verifier.opened(over_the_wire(signer.signed(CONTENT, "hospital-a")))
    assert came.keys() == CONTENT.keys()
    assert torch.equal(came["request"]["model"]["w"], CONTENT["request"]["model"]["w"])
    assert verifier.opened(over_the_wire(signer.signed({}, "hospital-a"))) == {}


def spoil_model(message):
    message["request"]["model"]["w"][1, 2] += 1e-6


def spoil_shape(message):
    model = message["request"]["model"]
    model["w"] = model["w"].reshape(3, 2)


@pytest.mark.parametrize(("spoil", "what"), [
    (lambda m: m.pop("signature"), "without a signature"),
    (lambda m: m.update(signature="00" * 64), "with a wrong signature"),
    (lambda m: m.update(signature=7), "with a wrong signature"),
    (lambda m: m.update(x=0.2), "with a wrong signature"),
    (lambda m: m.update(more=1), "with a wrong signature"),
    (lambda m: m["request"].update(steps=["go-on"]), "with a wrong signature"),
    (spoil_model, "with a wrong signature"), (spoil_shape, "with a wrong signature"),
], ids=range(8))  # fmt: skip
def test_a_message_that_was_changed_is_dropped(trial, spoil, what):
    signer, verifier = keys(trial)
    message = over_the_wire(signer.signed(CONTENT, "hospital-a"))
    spoil(message)
    with pytest.raises(OfclError, match=f"dropped a message {what}: it is not from the server"):
        verifier.opened(message)


def test_a_message_for_one_party_is_none_for_another(trial):
    signer, _ = keys(trial)
    message = over_the_wire(signer.signed(CONTENT, "hospital-b"))
    with pytest.raises(OfclError, match="wrong signature"):
        keys(trial)[1].opened(message)


def test_a_run_over_a_transport_that_signs(trial, tmp_path):
    parties = members(tmp_path)
    for number, party in parties.items():
        verifier = Verifier.of_folder(trial / PARTIES[number], PARTIES[number])
        party.answer = lambda m, answer=party.answer, v=verifier: answer(v.opened(m))
    signer, _ = keys(trial)
    transport = SignedTransport(InProcess(parties), signer, PARTIES)
    run, said = hosted(tmp_path, transport)
    list(run)
    assert run.server.round > 3
    assert not any("could not answer" in line for line in said)


def test_folders_of_earlier_versions_are_told_how_to_get_the_key(trial):
    for path in [trial / "server" / "signing.key", trial / "server" / "signing.pub",
                 *(trial / party / PUBLIC for party in PARTIES)]:  # fmt: skip
        path.unlink()
    with pytest.raises(OfclError, match="ask the organiser for server/signing.pub"):
        Verifier.of_folder(trial / "hospital-a", "hospital-a")
    remark = ensure_signing_key(trial)
    assert "signing.pub" in remark
    assert ensure_signing_key(trial) is None
    signer, verifier = keys(trial)
    assert verifier.opened(over_the_wire(signer.signed({}, "hospital-a"))) == {}
    assert load_server(trial).signing_key.stat().st_mode & 0o077 == 0
    (trial / "hospital-a" / PUBLIC).write_text("no key")
    with pytest.raises(OfclError, match="is no public key"):
        keys(trial)
