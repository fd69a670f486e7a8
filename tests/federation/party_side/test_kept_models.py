"""Every party keeps a model: checked, the final one, whoever is killed or away; does it help?"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import ofcl
from ofcl import OfclError, make_settings
from ofcl.algorithm import federate
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.bundle.open_bundle import find_bundle
from ofcl.engines.local import LocalEngine
from ofcl.engines.messages import Request, pack_request
from ofcl.events import Evaluated, Learned, Round
from ofcl.federation.party_side import model_files
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.server_side import courier
from ofcl.methods import new_samples
from ofcl.models.head import grown
from ofcl.storage.encryption import Seal
from ofcl.storage.memories import MemoryPlace, forget, list_samples, read_memories
from ofcl.update import travelling
from tests.support.federation import PARTIES, SMALL, InProcess, hosted, member, members
from tests.support.remote import assert_same, over_the_wire

FEW = {**SMALL, "method": "er", "tasks": 2, "limit": 4, "q": 2, "burn_in": 1}
CLOSED = {**FEW, "closing_round": "end"}
NEAREST = {**CLOSED, "classifier": "nearest-mean"}


def source_of(folder, number, rows=60):
    """Three columns of two classes; all parties have the same units."""
    path = folder / f"{number}.csv"
    draw = np.random.default_rng(number)
    lines = ["a,b,c,label"]
    for n in range(rows):
        values = draw.normal(1000 * (1 + n % 2), 100, 3)
        lines.append(",".join(f"{value:.3f}" for value in values) + f",{'xy'[n % 2]}")
    path.write_text("\n".join(lines))
    return open_source({"dataset": str(path), "label": "label"}, False, lambda _: None)


def said_by(transport):
    said = {}
    for number, party in transport.members.items():
        said[number] = []
        party._kept._tell = said[number].append
    return said


def weights(folder, number, *below, key=None):
    return find_bundle(folder.joinpath(PARTIES[number], *below), key).tensors


@pytest.mark.parametrize("settings", [FEW, CLOSED, NEAREST],
                         ids=["sound", "closing round", "prototypes"])  # fmt: skip
def test_every_party_has_the_final_model_and_can_use_it(tmp_path, settings):
    class Noting(InProcess):
        """Notes each party's model after its last mini-batch: its first update after that."""

        learned, last = {}, {}

        def fetch(self, messages):
            parties = {message: self.sent[message][0] for message in messages}
            found = super().fetch(messages)
            for message, delivery in found.items():
                party, answer = parties[message], delivery.content
                if answer.get("update") and self.learned.get(party) != answer["learned"]:
                    self.learned[party] = answer["learned"]
                    self.last[party] = answer["update"]["state"]
            return found

    transport = Noting(members(tmp_path))
    said = said_by(transport)
    run, _ = hosted(tmp_path, transport, settings)
    events = list(run)
    digits = ofcl.load_dataset("digits")
    for number, name in enumerate(PARTIES):
        assert_same(weights(tmp_path, number), run.server.model | run.server.prototypes)
        model = ofcl.load(tmp_path / name)
        assert model.labels == run.labels
        assert model.description.learned.finished
        assert model.description.learned.rounds == run.server.round
        answers = model.predict(digits.x_test[:40])
        assert (answers == run.model().predict(digits.x_test[:40])).all()
        ended = [e for e in events if isinstance(e, Evaluated) and e.client == number][-1]
        rows = [row for task in ended.global_test for row in task]
        share = 100 * sum(row[1] for row in rows) / sum(row[2] for row in rows)
        noted = json.loads((tmp_path / name / "helps.json").read_text())
        assert (noted["over"], noted["kept"]) == (True, "global")
        assert [row["task"] for row in noted["tasks"]] == [1, 2]
        assert noted["tasks"][-1]["global"] == round(share, 2)
        assert noted["tasks"][-1]["samples"] == sum(row[2] for row in rows)
        own = noted["tasks"][-1]["own"]
        assert said[number][-2:] == [
            f"the run is over; '{tmp_path / name}' has the global model: "
            f"ofcl predict {tmp_path / name} INPUT",
            f"on your test data ({noted['tasks'][-1]['samples']} samples): "
            f"global model {share:.1f} %, your own {own:.1f} %",
        ]  # fmt: skip
        own_model = weights(tmp_path, number, "models", "own")["head.weight"]
        assert torch.equal(own_model, transport.last[number]["head.weight"])
        assert not torch.equal(own_model, run.server.model["head.weight"])


def test_a_party_whose_data_end_early_gets_the_model_that_the_others_finish(tmp_path):
    sources = [source_of(tmp_path, number, rows) for number, rows in enumerate((60, 60, 240))]
    transport = InProcess({k: member(tmp_path, k, sources[k]) for k in range(3)})
    settings = {**FEW, "tasks": 1, "limit": None, "batch_size": 10, "min_clients": 1, "hidden": 4}
    run, said = hosted(tmp_path, transport, settings, out=tmp_path / "run")
    alone = [event for event in run if isinstance(event, Round) and event.clients == [2]]
    assert alone
    for number in range(3):
        assert_same(weights(tmp_path, number), run.server.model)
    assert not any("has not reached" in line for line in said)


def test_the_final_model_may_have_a_class_that_came_after_the_partys_end(tmp_path):
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, FEW)
    list(run)
    later = Request(run.engine._standing.run, 99, (), grown(run.server.model, 11, 0))
    terms = replace(run.engine._channel._terms(), labels=(*run.labels, "new"))
    message = {"request": pack_request(later), "terms": courier.pack(terms)}
    answer = transport.members[0].answer(over_the_wire(message))
    assert answer.tree["status"] == "finished"
    assert ofcl.load(tmp_path / PARTIES[0]).labels == (*run.labels, "new")
    assert_same(weights(tmp_path, 0), later.model)


def test_of_a_table_each_party_reads_its_own_columns_and_the_server_none(tmp_path):
    transport = InProcess({k: member(tmp_path, k, source_of(tmp_path, k)) for k in range(3)})
    settings = {**FEW, "tasks": 1, "limit": None, "batch_size": 5, "q": 4, "hidden": 8,
                "steps": 8}  # fmt: skip
    run, _ = hosted(tmp_path, transport, settings, out=tmp_path / "run")
    list(run)
    for name in PARTIES:
        row, twice = (dict.fromkeys("abc", value) for value in (1000.0, 2000.0))
        assert list(ofcl.load(tmp_path / name).predict([row, twice])) == ["x", "y"]
    servers = ofcl.load(tmp_path / "run")
    with pytest.raises(OfclError, match="does not know the columns: each party standardises"):
        servers.predict([row])
    assert "as each party has prepared them" in servers.description.samples.words()
    assert len(servers.predict(np.zeros((2, 3)))) == 2


def test_of_a_stream_each_party_has_a_model_of_its_columns(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    rows = "".join(f"{1000 * (n % 2) + n},{n % 3},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "0.csv").write_text("u,v,label\n" + rows)
    values = {"dataset": f"watch:{folder}", "idle": 0.3, "window": 20, "label": "label",
              "test": str(folder / "0.csv")}  # fmt: skip
    sources = [open_source(values, False, print) for _ in range(3)]
    transport = InProcess(
        {k: member(tmp_path, k, source, local_too=True) for k, source in enumerate(sources)}
    )
    said = said_by(transport)
    settings = {"method": "er", "memory": 20, "hidden": 8, "burn_in": 1, "q": 2, "patience": 0.5,
                "min_clients": 2, "protocol": "sound", "steps": 10}  # fmt: skip
    run, _ = hosted(tmp_path, transport, settings)
    seen = set()
    for event in run:
        if isinstance(event, Round) and event.round > 1:  # a stream may have no end
            seen |= {path.name for path in (tmp_path / PARTIES[1] / "models").iterdir()}
            going_on = ofcl.load(tmp_path / PARTIES[1]).description
            assert (going_on.samples.columns, going_on.learned.finished) == (("u", "v"), False)
    assert seen >= {"round-1", "round-2"}
    model = ofcl.load(tmp_path / PARTIES[1])
    assert_same(weights(tmp_path, 1), run.server.model)
    rounds = {path.name for path in (tmp_path / PARTIES[1] / "models").glob("round-*")}
    assert rounds == {f"round-{run.server.round - 1}", f"round-{run.server.round}"}
    assert list(model.predict([{"u": 20, "v": 1}, {"u": 1020, "v": 1}])) == ["a", "b"]
    assert any("learned from your data alone" in line for line in said[1])


def test_of_a_stream_without_tasks_the_model_alone_is_compared_on_new_samples(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(new_samples, "LOT", 20)
    folder = tmp_path / "in"
    folder.mkdir()
    rows = "".join(f"{(n * 7) % 11},{n % 3},{'ab'[n % 2]}\n" for n in range(100))
    (folder / "0.csv").write_text("u,v,label\n" + rows)
    values = {"dataset": f"watch:{folder}", "idle": 0.3, "window": 20, "label": "label"}
    made = lambda k: member(  # noqa: E731
        tmp_path, k, open_source(values, False, print), local_too=True
    )
    transport = InProcess({k: made(k) for k in range(3)})
    settings = {"method": "er", "memory": 20, "hidden": 8, "burn_in": 0, "q": 2, "patience": 0.5,
                "min_clients": 3, "protocol": "sound", "steps": 3, "batch_size": 10}  # fmt: skip
    run, _ = hosted(tmp_path, transport, settings)
    helps, right, shown = tmp_path / PARTIES[1] / "helps.json", [], []
    said = said_by(transport)[0]
    for event in run:
        if isinstance(event, Learned) and event.client == 1:
            right.append(100 * event.correct / event.samples)
        if isinstance(event, Round):
            if event.round == 2:  # killed: what was counted is in its state
                transport.members[1] = made(1)
                transport.processes[1] += 1
            if helps.exists():
                shown.append(json.loads(helps.read_text()))
    assert len(right) >= 4
    assert [one["new"]["own"] for one in shown] == [round(r, 2) for r in right[: len(shown)]]
    assert [one["new"]["lot"] for one in shown] == list(range(1, len(shown) + 1))
    assert all(one["new"]["samples"] == 20 and one["tasks"] == [] for one in shown)
    assert len(shown) >= 3
    lines = [line for line in said if line.startswith("on your last 20 new samples")]
    assert len(lines) >= 3
    assert all("your own" in line and "learned from your data alone" in line for line in lines)


class Started(InProcess):
    """Parties whose processes are started again before every message, and sometimes killed."""

    def __init__(self, folder, **how):
        super().__init__(members(folder, **how))
        self.again = lambda number: member(folder, number, self.members[number]._source, **how)
        self.killed = 0

    def fetch(self, messages):
        for party, content in [self.sent[message] for message in messages]:
            self.members[party] = self.again(party)
            if "request" in content and self.count % 3 == 0:  # it dies before its state is saved
                responder = self.members[party]._responder
                responder._save = lambda client: (_ for _ in ()).throw(KeyboardInterrupt)
                with pytest.raises(KeyboardInterrupt):
                    self.members[party].answer(over_the_wire(content))
                self.members[party], self.killed = self.again(party), self.killed + 1
        return super().fetch(messages)


@pytest.mark.parametrize("settings", [FEW, CLOSED], ids=["sound", "closing round"])
def test_killed_parties_end_with_the_same_models(tmp_path, settings):
    how = {"keep": "own", "local_too": True}
    run, _ = hosted(tmp_path, InProcess(members(tmp_path / "whole", **how)), settings)
    list(run)
    killed = Started(tmp_path / "killed", **how)
    list(hosted(tmp_path, killed, settings)[0])
    assert killed.killed > 3
    whole = tmp_path / "whole" / PARTIES[0]
    files = [path.relative_to(whole) for part in ("model", "models")
             for path in sorted((whole / part).rglob("*")) if path.is_file()]  # fmt: skip
    assert len(files) == 3 * (1 + 2 + 3)  # the kept one, of two tasks, global, own and alone
    for file in files:
        assert (tmp_path / "killed" / PARTIES[0] / file).read_bytes() == (whole / file).read_bytes()
    assert_same(weights(tmp_path / "whole", 0), weights(tmp_path / "whole", 0, "models", "own"))


@pytest.mark.parametrize("away", [{1}, {0, 1, 2}], ids=["one", "all"])
def test_who_is_away_at_the_end_has_a_model_that_says_so(tmp_path, monkeypatch, away):
    monkeypatch.setattr(courier, "LAST_WAIT", 0.3)
    monkeypatch.setattr(courier, "LOOK_WHO", 0.05)
    transport = InProcess(members(tmp_path))
    said_here = said_by(transport)
    run, said = hosted(tmp_path, transport, FEW)

    def hand_out(requests, handed=run.engine._hand_out):
        transport.away = away
        return handed(requests)

    run.engine._hand_out = hand_out
    list(run)
    missed = ", ".join(PARTIES[number] for number in sorted(away))
    assert said[-1] == f"the final model has not reached {missed}"
    learned = [find_bundle(tmp_path / name).description.learned for name in PARTIES]
    assert [part.finished for part in learned] == [number not in away for number in range(3)]
    assert "the final one comes when all parties have ended" in said_here[1][-2]


def test_with_a_key_no_model_can_be_read_and_older_ones_are_sealed_too(tmp_path):
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    seal = Seal.from_file(key)
    for folder, how in (("sealed", {"seal": seal}), ("open", {})):
        run, _ = hosted(tmp_path, InProcess(members(tmp_path / folder, **how)), FEW)
        list(run)
    model_files.seal_models(tmp_path / "open" / PARTIES[0], seal)
    for folder in ("sealed", "open"):
        party = tmp_path / folder / PARTIES[0]
        files = {str(path.relative_to(party)) for part in ("model*", "models/*")
                 for path in party.glob(part) if path.name != "models"}  # fmt: skip
        kinds = ("task-1", "task-2", "global", "own")
        assert files == {"model.sealed", *(f"models/{kind}.sealed" for kind in kinds)}
        with pytest.raises(OfclError, match="is encrypted; give the file of its key"):
            find_bundle(party)
        assert ofcl.load(party, key_file=key).labels == run.labels
        assert_same(find_bundle(party / "models" / "own", key).tensors,
                    find_bundle(party / "models" / "own.sealed", key).tensors)  # fmt: skip
        (party / "model.sealed").unlink()  # as before the end of a first run
        assert find_bundle(party, key).description.learned.rounds == run.server.round


def test_a_model_that_cannot_be_is_refused_before_anything_is_written(tmp_path):
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, FEW)
    seen = []

    class Evil(type(transport.members[0]._kept)):
        spoil = None

        def arrived(self, request, client):
            seen.append(request)
            super().arrived(replace(request, model=self.spoil(request.model)), client)

    party = transport.members[0]
    party._kept.__class__ = Evil
    for spoil, message in (
        (lambda model: {**model, "head.bias": model["head.bias"] * torch.nan}, "not finite"),
        (lambda model: {**model, "head.weight": model["head.weight"][:, 1:]}, "has the shape"),
        (lambda model: {**model, "more": torch.zeros(1)}, "'more' is missing or too many"),
        (lambda model: {**model, "head.bias": torch.zeros(11),
                        "head.weight": torch.zeros(11, 16)}, "has the shape"),
        (lambda model: {**model, "head.bias": model["head.bias"].half()}, "of another type"),
    ):  # fmt: skip
        Evil.spoil = staticmethod(spoil)
        content = over_the_wire({"request": vars(first_request(run)), "terms": terms_of(run)})
        with pytest.raises(OfclError, match=f"the server's model was refused: .*{message}"):
            party.answer(content)
    assert len(seen) == 5
    assert not list((tmp_path / PARTIES[0]).rglob("*.safetensors"))


def first_request(run):
    return run.engine._standing.request(0, run.server.model)


def terms_of(run):
    return courier.pack(run.engine._channel._terms())


# Does taking part help?


def without_rounds(settings):
    made = make_settings({**settings, "dataset": "digits", "clients": 3})
    parties = dataset_participants(made, None)
    parties.server._min_clients = 9
    assert not [e for e in federate(LocalEngine(parties.clients), parties.server)
                if isinstance(e, Round)]  # fmt: skip
    return parties.clients


def audited(folder):
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("time", "run")} for line in lines]


def test_a_model_learned_from_the_partys_data_alone_is_never_sent(tmp_path):
    both = InProcess(members(tmp_path / "both", local_too=True))
    said = said_by(both)
    run, _ = hosted(tmp_path, both, FEW)
    list(run)
    plain, _ = hosted(tmp_path, InProcess(members(tmp_path / "plain")), FEW)
    list(plain)
    assert_same(run.server.model, plain.server.model)
    alone = without_rounds(FEW)
    for number, name in enumerate(PARTIES):
        assert_same(weights(tmp_path / "both", number, "models", "alone"),
                    travelling(alone[number].model, statistics=True))  # fmt: skip
        assert audited(tmp_path / "both" / name) == audited(tmp_path / "plain" / name)
        last = json.loads((tmp_path / "both" / name / "helps.json").read_text())["tasks"][-1]
        assert f", learned from your data alone {last['alone']:.1f} %" in said[number][-2]
        more = last["global"] - last["alone"]
        assert f"{abs(more):.1f} points {'more' if more >= 0 else 'fewer'}" in said[number][-1]
    assert not (tmp_path / "plain" / PARTIES[0] / "models" / "alone").exists()


def test_a_sample_is_forgotten_in_the_memory_of_the_model_alone_too(tmp_path):
    settings = {**FEW, "memory": 10}
    run, _ = hosted(tmp_path, InProcess(members(tmp_path, local_too=True)), settings)
    list(run)
    (folder,) = (tmp_path / PARTIES[0] / "runs").iterdir()
    place = MemoryPlace(0, folder)

    def numbers():
        return {row.number for memory in read_memories([place]) for row in list_samples(memory)}

    first, second = list(read_memories([place]))
    only = {row.number for row in list_samples(second)} - {
        row.number for row in list_samples(first)
    }
    going = sorted(only)[0] if only else list_samples(second)[0].number
    assert going in numbers()
    assert forget([place], 0, [going]) == [going]
    assert going not in numbers()


def test_a_model_alone_that_has_missed_mini_batches_stays_out(tmp_path):
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport, FEW)
    for event in run:
        if isinstance(event, Round) and event.round == 1:
            transport.members = members(tmp_path, local_too=True)
            said = said_by(transport)
    assert any("began without it" in line for line in said[0])
    assert not (tmp_path / PARTIES[0] / "models" / "alone").exists()
