"""A party answers the server, and does not trust it."""

import json

import pytest
import torch

from ofcl import OfclError, make_settings
from ofcl.aggregation import fedavg, weighted_fedavg
from ofcl.data.live.vocabulary import AssignedVocabulary
from ofcl.engines.messages import Request, pack_request
from ofcl.events import Evaluated
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.own_source import settings_here
from ofcl.federation.party_side.party_policy import Policy
from ofcl.federation.setup.organiser import create
from ofcl.federation.terms import (
    Terms,
    pack,
    travelling_settings,
    unpack_terms,
)
from ofcl.update import Update
from tests.support.commands import in_one_process
from tests.support.commands import ofcl as command
from tests.support.federation import FEDERATION, SMALL, InProcess, hosted, locally, member, members
from tests.support.remote import assert_same, over_the_wire


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


def test_a_dataset_that_has_grown_during_a_run_is_refused(tmp_path):
    rows = [f"{n % 7},{n % 5},{n % 3},{'ab'[n % 2]}" for n in range(60)]
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(["u,v,w,label", *rows]) + "\n")

    def started():
        return member(tmp_path, 0, open_source({"dataset": str(path)}, False, lambda _: None))

    source = open_source({"dataset": str(path)}, False, lambda _: None)
    settings = {**travelling_settings(make_settings(SMALL)), "tasks": 2}
    terms = Terms(settings, 3, ("a", "b"), 2, source.samples())
    model = source.client(terms, 0, AssignedVocabulary(("a", "b"))).client.own_model()

    def request(run):
        asked = Request(run, 1, (), model, {})
        return over_the_wire({"request": pack_request(asked), "terms": pack(terms)})

    first = started().answer(request("ab"))
    assert first.tree == started().answer(request("ab")).tree  # the same data: it goes on
    path.write_text("\n".join(["u,v,w,label", *rows, "1,1,1,a", "2,2,2,b"]) + "\n")
    with pytest.raises(OfclError, match="not the one with which run ab was begun: rows were added"):
        started().answer(request("ab"))
    assert started().answer(request("cd")).tree["learned"] > 0  # another run may have them


@in_one_process
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


@pytest.mark.parametrize(
    "how",
    [{"class_counts": False}, {"policy": Policy(class_counts=False, update_noise=0.0)}],
    ids=["told", "policy"],
)
def test_without_class_counts_weighted_averaging_is_fedavg(tmp_path, how):
    settings = {**SMALL, "aggregation": "weighted"}
    silent = InProcess(members(tmp_path / "a", **how))
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


def test_parties_make_prototypes_and_their_audit_files_name_the_sums(tmp_path):
    nearest = {"classifier": "nearest-mean", "closing_round": "end"}
    run, _ = hosted(tmp_path, InProcess(members(tmp_path)), {**SMALL, **nearest})
    list(run)
    _, server = locally(**nearest)
    assert_same(run.server.prototypes, server.prototypes)
    assert server.prototypes["prototype_counts"].sum() == 3 * SMALL["memory"]
    lines = [json.loads(line) for line in
             (tmp_path / "hospital-b" / "audit.jsonl").read_text().splitlines()]  # fmt: skip
    told = [field for line in lines for field in line["fields"] if "extras." in field["field"]]
    assert told == [
        {"field": "update.extras.feature_sums", "type": "float32 [10, 16]", "bytes": 640},
        {"field": "update.extras.feature_counts", "type": "int64 [10]", "bytes": 80},
    ]


def test_a_party_without_class_counts_keeps_back_its_features_too(tmp_path):
    nearest = {**SMALL, "classifier": "nearest-mean", "closing_round": "end"}
    parties = {**members(tmp_path), 1: member(tmp_path, 1, class_counts=False)}
    run, _ = hosted(tmp_path, InProcess(parties), nearest)
    list(run)
    assert run.server.prototypes["prototype_counts"].sum() == 2 * SMALL["memory"]


def test_the_noise_of_privacy_does_not_come_from_the_seed_that_the_server_knows(tmp_path):
    settings = {**SMALL, "dp_clip": 1.0, "dp_noise": 0.5}
    models = []
    for part in ("a", "b"):
        run, _ = hosted(tmp_path, InProcess(members(tmp_path / part)), settings)
        list(run)
        models.append(run.server.model["hidden.weight"])
        assert run.epsilon() > 0
    assert not torch.equal(*models)
