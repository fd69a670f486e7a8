"""The file that names every field that has left a party."""

import json

import pytest

from ofcl.federation.party_side import audit_files
from ofcl.federation.party_side.audit import Audit, fields_of
from tests.support.federation import (
    SMALL,
    InProcess,
    hosted,
    member,
    members,
)


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
                      "update", "labels", "data"}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "added"),
    [
        ("ewc", {"hidden_weight", "hidden_bias", "head_weight", "head_bias"}),
        ("fedcbdr", {"gram", "head_bias"}),
        ("glfc", set()),
    ],
)
def test_the_audit_names_what_a_method_adds_to_its_model(tmp_path, method, added):
    settings = {**SMALL, "tasks": 1, "limit": 3, "method": method}
    run, _ = hosted(tmp_path, InProcess(members(tmp_path)), settings)
    list(run)
    lines = (tmp_path / "hospital-b" / "audit.jsonl").read_text().splitlines()
    fields = [field["field"] for line in lines for field in json.loads(line)["fields"]]
    state = {name.removeprefix("update.state.") for name in fields
             if name.startswith("update.state.")}  # fmt: skip
    assert {name.removeprefix("companion.") for name in state if "companion" in name} == added
    assert not [name for name in fields if name.startswith("update.extras.")]
    assert state == set(run.server.model)


def test_the_audit_line_is_there_before_the_answer(tmp_path, monkeypatch):
    party = member(tmp_path, 0)
    monkeypatch.setattr(Audit, "write", lambda *_, **__: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        party.answer({})


def test_a_large_audit_file_is_put_aside_and_the_oldest_are_summed_up(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_files, "LARGE", 400)
    monkeypatch.setattr(audit_files, "KEPT", 2)
    audit = Audit(tmp_path)
    sent = [audit.write({"n": n, f"field{n % 7}": "x"}, what="answer") for n in range(60)]
    kept = list(audit_files.audit_lines(tmp_path))
    before = json.loads((tmp_path / "audit-before.json").read_text())
    assert 0 < len(kept) < 30
    assert before["messages"] + len(kept) == 60
    assert before["bytes"] + sum(line["bytes"] for line in kept) == sum(sent)
    assert set(before["fields"]) == {"n", *(f"field{n}" for n in range(7))}
    assert len(list(tmp_path.glob("audit.*.gz"))) == 2
    assert (tmp_path / "audit.jsonl").stat().st_size < 400
