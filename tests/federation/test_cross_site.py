"""Cross-site validation: the right matrix, for those who agree; killed, dead and dishonest ones."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import ofcl
from ofcl import OfclError, make_settings
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.assembly.going_on import read_start
from ofcl.assembly.inheritance import inherited
from ofcl.assembly.replaying import read_replay
from ofcl.bundle.open_bundle import find_bundle
from ofcl.engines import cross_tester
from ofcl.engines.messages import pack_request
from ofcl.events import GLOBAL_MODEL, CrossTested, Evaluated
from ofcl.experiment import Run
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.party_policy import Policy
from ofcl.federation.server_side import courier
from ofcl.federation.server_side.stage import FederationStage
from ofcl.models.head import grown
from ofcl.settings.rules import check_cross_site
from tests.support.federation import FEDERATION, PARTIES, SMALL, InProcess, hosted, member, members
from tests.support.remote import assert_same, over_the_wire

FEW = {
    **SMALL,
    "method": "er",
    "tasks": 2,
    "limit": 4,
    "q": 2,
    "burn_in": 1,
    "closing_round": "end",
}
CROSS = {**FEW, "cross_site": True}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(courier, "LAST_WAIT", 0.5)
    monkeypatch.setattr(courier, "LOOK_WHO", 0.05)
    monkeypatch.setattr(courier, "LOOK_AGAIN", 0.01)
    monkeypatch.setattr(courier, "AFTER_FAILURE", 0.1)


class Noting(InProcess):
    """Notes the steps of cross-site validation, and calls a function before each answer."""

    def __init__(self, parties, before=lambda transport, party, cross: None):
        super().__init__(parties)
        self.before, self.asked, self.answers = before, [], []

    def fetch(self, messages):
        asked = {message: self.sent[message] for message in messages}
        for party, content in asked.values():
            if cross := content.get("request", {}).get("cross"):
                self.asked.append((party, cross, content["request"]["model"]))
                self.before(self, party, cross)
        found = super().fetch(messages)
        for message, delivery in found.items():
            party, content = asked[message]
            if delivery.content is not None and "cross" in content.get("request", {}):
                self.answers.append((party, delivery.content["cross"]))
        return found


def agreeing(folder, *numbers, **how):
    return {k: member(folder, k, cross_site=k in numbers, **how) for k in range(3)}


def crossed(events):
    return [event for event in events if isinstance(event, CrossTested)]


def validated(tmp_path, settings=CROSS, numbers=(0, 1, 2), transport=None, **how):
    transport = transport or Noting(agreeing(tmp_path, *numbers))
    run, said = hosted(tmp_path, transport, settings, **how)
    return crossed(run), run, said, transport


def helps(folder, number):
    return json.loads((folder / PARTIES[number] / "helps.json").read_text())


def rows_of_test(number):
    made = make_settings({**FEW, "dataset": "digits", "clients": 3})
    client = dataset_participants(made, None).clients[number]
    return torch.cat(client._held_out.test._rows)


@pytest.mark.parametrize("more", [{}, {"compress": "int8"}, {"rounds": "buffered"},
                                  {"method": "ewc"}], ids=str)  # fmt: skip
def test_the_matrix_is_that_of_the_models_tested_by_hand(tmp_path, more):
    rows, run, said, transport = validated(tmp_path, {**CROSS, **more}, out=tmp_path / "run")
    network = set(find_bundle(tmp_path / PARTIES[0]).tensors)  # of ewc: without its importances
    assert all(set(model) == network for _, _, model in transport.asked if model)
    digits = ofcl.load_dataset("digits")
    labels = np.array(digits.labels, dtype=object)
    own = [ofcl.load(tmp_path / name / "models" / "own") for name in PARTIES]
    by_hand = []
    for number, model in [(GLOBAL_MODEL, run.model()), *enumerate(own)]:
        of = [rows_of_test(k) for k in range(3)]
        right = [
            int((model.predict(digits.x_test[r]) == labels[digits.y_test[r]]).sum()) for r in of
        ]
        by_hand.append(CrossTested(number, [0, 1, 2], right, [len(r) for r in of]))
    assert rows == by_hand
    assert len({tuple(row.right) for row in rows}) == 4  # no two models are one
    assert said[-1] == f"cross-site validation between {', '.join(PARTIES)}"
    assert run.directory.result().cross_site == [
        {"model": None if row.model == GLOBAL_MODEL else row.model, "clients": [0, 1, 2],
         "accuracy": [100 * n / 120 for n in row.right], "samples": [120, 120, 120]}
        for row in by_hand
    ]  # fmt: skip


def test_each_party_hears_of_its_own_row_and_column_alone(tmp_path):
    said = []
    parties = agreeing(tmp_path, 0, 1, 2)
    parties[1]._responder._cross._told._tell = said.append
    rows, *_ = validated(tmp_path, transport=Noting(parties))
    percent = {(row.model, k): 100 * n / 120 for row in rows for k, n in enumerate(row.right)}
    noted = helps(tmp_path, 1)
    assert noted["cross_site"] == {
        "here": [{"party": name, "accuracy": round(percent[k, 1], 2), "samples": 120}
                 for k, name in enumerate((None, *PARTIES), GLOBAL_MODEL)],
        "elsewhere": [{"party": PARTIES[k], "accuracy": round(percent[1, k], 2), "samples": 120}
                      for k in (0, 2)],
    }  # fmt: skip
    last = noted["tasks"][-1]
    assert (last["global"], last["own"]) == (round(percent[-1, 1], 2), round(percent[1, 1], 2))
    assert said == [
        "cross-site validation, on your test data (120 samples): global model "
        f"{percent[-1, 1]:.1f} %, of hospital-a {percent[0, 1]:.1f} %, your own "
        f"{percent[1, 1]:.1f} %, of hospital-c {percent[2, 1]:.1f} %",
        "cross-site validation, your model on the data of others: hospital-a "
        f"{percent[1, 0]:.1f} % (120 samples), hospital-c {percent[1, 2]:.1f} % (120 samples)",
    ]


@pytest.mark.parametrize("buffered", [True, False])
def test_the_run_and_its_models_can_be_gone_on_with_on_one_machine(tmp_path, buffered):
    rounds = "buffered" if buffered else "waiting"
    validated(tmp_path, {**CROSS, "rounds": rounds}, out=tmp_path / "run")
    if buffered:
        again = make_settings(read_replay(tmp_path / "run").values({"dataset": "digits"}))
    else:
        start = read_start(tmp_path / PARTIES[0] / "model")
        assert start.settings["cross_site"]
        again = make_settings({**inherited(start, "dataset"), "dataset": "digits"})
    check_cross_site(again)
    assert not again.cross_site


# Agreement


def audited(folder, number):
    lines = (folder / PARTIES[number] / "audit.jsonl").read_text().splitlines()
    return [[field["field"] for field in json.loads(line)["fields"]] for line in lines]


def test_who_does_not_agree_is_left_out_in_both_roles_and_loses_nothing(tmp_path):
    rows, run, _, transport = validated(tmp_path / "some", numbers=(0, 2))
    assert [(row.model, row.clients) for row in rows] == [(-1, [0, 2]), (0, [0, 2]), (2, [0, 2])]
    assert [cross for party, cross in transport.answers if party == 1] == [{"agrees": False}]
    assert [cross["step"] for party, cross, _ in transport.asked if party == 1] == ["ask"]
    own = find_bundle(tmp_path / "some" / PARTIES[1] / "models" / "own").tensors
    for _, _, model in transport.asked:
        assert not model or not torch.equal(model["head.weight"], own["head.weight"])
    assert not any("hospital-b" in json.dumps(cross) for _, cross, _ in transport.asked)
    plain, _ = hosted(tmp_path / "plain", InProcess(members(tmp_path / "plain")), FEW)
    events = list(plain)
    assert_same(run.server.model, plain.server.model)
    assert run.result().A == plain.result().A
    assert len([event for event in events if isinstance(event, Evaluated)]) == 6
    assert helps(tmp_path / "some", 1)["tasks"] == helps(tmp_path / "plain", 1)["tasks"]
    assert "cross_site" not in helps(tmp_path / "some", 1)


def test_what_leaves_in_cross_site_validation_is_named_in_the_audit_file(tmp_path):
    validated(tmp_path, numbers=(0, 2))
    fields = audited(tmp_path, 0)
    plain = [field for line in audited(tmp_path, 1) for field in line]
    cross = [[field for field in line if field.startswith("cross")] for line in fields]
    cross = [line for line in cross if line]
    assert cross[0][0] == "cross.agrees"
    assert sorted(cross[0][1:]) == sorted(
        f"cross.model.{name}" for name in find_bundle(tmp_path / PARTIES[0]).tensors
    )
    counts = ["cross.agrees", "cross.model", "cross.right", "cross.samples"]
    assert cross[1:] == [counts, counts, counts, ["cross.agrees"]]
    assert [field for field in plain if field.startswith("cross")] == ["cross.agrees"]


@pytest.mark.parametrize(("numbers", "words"), [((), "nobody has agreed"),
                                                ((1,), "hospital-b does")])  # fmt: skip
def test_with_fewer_than_two_it_is_said_and_nothing_happens(tmp_path, numbers, words):
    rows, run, said, transport = validated(tmp_path, numbers=numbers)
    assert rows == run.result().cross_site == []
    assert said[-1] == f"no cross-site validation: it needs 2 parties that agree, and {words}"
    assert {cross["step"] for _, cross, _ in transport.asked} == {"ask"}


def test_a_policy_may_forbid_it_and_a_run_that_does_not_ask_has_none(tmp_path):
    parties = agreeing(tmp_path, 0, 1, 2, policy=Policy(cross_site=False))
    rows, _, said, _ = validated(tmp_path, transport=Noting(parties))
    assert (rows, said[-1].endswith("nobody has agreed")) == ([], True)
    rows, _, _, transport = validated(tmp_path / "unasked", FEW)
    assert rows == transport.asked == []


def test_who_does_not_agree_any_more_has_its_model_handed_on_no_further(tmp_path):
    def withdraws(transport, party, cross):
        if cross.get("model") == 1:
            transport.members[2]._cross_site = False

    rows, _, said, transport = validated(
        tmp_path, transport=Noting(agreeing(tmp_path, 0, 1, 2), withdraws)
    )
    assert [(row.model, row.clients) for row in rows] == [
        (-1, [0, 1, 2]), (0, [0, 1, 2]), (1, [0, 1])
    ]  # fmt: skip
    assert any("goes on without hospital-c, which does not agree any more" in s for s in said)
    assert 2 not in [cross.get("model") for _, cross, _ in transport.asked]


# Refusals


@pytest.mark.parametrize(("change", "why"), [
    ({"engine": "local"}, "for parties of their own"),
    ({"secure_aggregation": True}, "secure_aggregation hides"),
    ({"dp_clip": 1.0}, "dp_clip it says little"),
    ({"classifier": "nearest-mean"}, "prototypes of a party's own memory"),
    ({"batchnorm": "local"}, "keeps each party's statistics back"),
    ({"batchnorm": "reset"}, "keeps each party's statistics back"),
    ({"closing_round": "none"}, "--set closing_round=end"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_where_it_cannot_be_held_it_is_refused_with_the_reason(tmp_path, change, why):
    settings = {**CROSS, "engine": "flower", "dataset": "trial", "clients": 3}
    check_cross_site(make_settings(settings))
    with pytest.raises(OfclError, match=f"cross_site .*{why}"):
        check_cross_site(make_settings({**settings, **change}))
    if "engine" not in change:
        with pytest.raises(OfclError, match=f"cross_site .*{why}"):
            hosted(tmp_path, InProcess({}), {**CROSS, **change})


class Asking:
    """A server that asks a party whatever it likes, after a run that was as it should be."""

    def __init__(self, folder, *numbers):
        _, self.run, _, transport = validated(folder, numbers=numbers or (0, 1, 2))
        self.party, self.terms = transport.members[0], self.run.engine._channel._terms()

    def asks(self, cross, model=None, party=None, **settings):
        request = self.run.engine._standing.cross_request(0, cross, model or {})
        self.run.engine._standing.exchange += 1
        terms = replace(self.terms, settings={**self.terms.settings, **settings})
        message = {"request": pack_request(request), "terms": courier.pack(terms)}
        return (party or self.party).answer(over_the_wire(message)).tree["cross"]


@pytest.mark.parametrize("change", [{"dp_clip": 1.0}, {"cross_site": False},
                                    {"closing_round": "none"}], ids=str)  # fmt: skip
def test_a_party_sends_no_model_where_its_updates_are_hidden_or_nobody_said(tmp_path, change):
    server = Asking(tmp_path)
    terms = replace(server.terms, settings={**server.terms.settings, **change})
    assert server.party._agrees_to_cross_site(server.terms)
    assert not server.party._agrees_to_cross_site(terms)


def test_a_server_cannot_change_the_terms_of_a_run_that_it_began_otherwise(tmp_path):
    """Else a private run could end with a request for the plain model, or for many tests."""
    server = Asking(tmp_path)
    ask = {"step": "ask"}
    for party in (server.party, member(tmp_path, 0, cross_site=True)):  # one that was killed, too
        for change in ({"dp_clip": 1.0}, {"memory": 41}, {"q": 2}):
            if "q" in change:
                assert server.asks(ask, party=party, **change)["agrees"]  # q may change
                continue
            (name,) = change
            with pytest.raises(OfclError, match=f"has changed {name} within a run; it is refused"):
                server.asks(ask, party=party, **change)
        terms, server.terms = server.terms, replace(server.terms, clients=10**6)
        with pytest.raises(OfclError, match="has changed number of parties within a run"):
            server.asks(ask, party=party)
        server.terms = terms
        assert set(server.asks(ask, party=party)) == {"agrees", "model"}


def test_a_server_cannot_test_one_model_after_the_other(tmp_path, monkeypatch):
    server = Asking(tmp_path)
    model = dict(server.run.server.model)
    step = {"step": "test", "model": 1, "name": "hospital-b"}
    before = server.asks(step, model)
    other = {name: torch.zeros_like(value) for name, value in model.items()}
    assert server.asks(step, other) == before
    again = member(tmp_path, 0, cross_site=True)  # a kill changes nothing
    assert server.asks(step, other, again) == before
    for number in (-2, 3, True, "1", None):
        with pytest.raises(OfclError, match="its number of a party is"):
            server.asks({**step, "model": number}, other)
    monkeypatch.setattr(cross_tester, "MOST_MODELS", 2)  # however many parties it speaks of
    with pytest.raises(OfclError, match="its number of a party is 2"):
        server.asks({**step, "model": 2, "name": "hospital-c"}, other)


def test_a_model_or_step_that_cannot_be_is_refused_and_changes_nothing(tmp_path):
    server = Asking(tmp_path, 0, 1)
    model = dict(server.run.server.model)
    tested = dict(server.party._responder._cross._tested)
    step = {"step": "test", "model": 2, "name": "hospital-c"}
    for spoilt, why in (
        ({**model, "head.bias": model["head.bias"] * torch.nan}, "not finite"),
        ({**model, "head.weight": model["head.weight"][:, 1:]}, "has the shape"),
        ({**model, "more": torch.zeros(1)}, "missing or too many"),
        ({}, "missing or too many"),
    ):
        with pytest.raises(OfclError, match=f"cross-site validation was refused: .*{why}"):
            server.asks(step, spoilt)
    for wrong, why in (
        ({**step, "name": "a\nb"}, "cannot be the name"),
        ({"step": "run"}, "there is no step 'run'"),
        ({"step": "results", "elsewhere": [["hospital-b", 3, 2]]}, "number of right predictions"),
        ({"step": "results", "elsewhere": [["b", 1, 2]] * 3}, "cannot be read"),
        ({"step": "results", "elsewhere": [["b", 1]]}, "cannot be read"),
    ):
        with pytest.raises(OfclError, match=why):
            server.asks(wrong, model)
    assert server.party._responder._cross._tested == tested
    assert sorted(tested) == [-1, 0, 1]
    assert server.asks(step, model)["right"] == tested[-1].right  # it is the global one again


def test_no_model_is_tested_before_the_data_have_ended(tmp_path):
    transport = Noting(agreeing(tmp_path, 0, 1, 2))
    run, _ = hosted(tmp_path, transport, CROSS)
    next(iter(run))
    request = run.engine._standing.cross_request(0, {"step": "ask"}, {})
    terms = courier.pack(run.engine._channel._terms())
    message = {"request": pack_request(replace(request, exchange=99)), "terms": terms}
    with pytest.raises(OfclError, match="before the data have ended"):
        transport.members[0].answer(over_the_wire(message))


# Kills, and parties that are away


def test_killed_parties_give_the_same_matrix(tmp_path):
    def killed(transport, party, cross):
        """The party dies before its answer is saved, and again after it, and is started again."""
        responder = transport.members[party]._responder
        responder._save = lambda client: (_ for _ in ()).throw(KeyboardInterrupt)
        content = next(c for p, c in transport.asked_now if p == party)
        with pytest.raises(KeyboardInterrupt):
            transport.members[party].answer(over_the_wire(content))
        again = member(tmp_path / "killed", party, cross_site=True)
        again.answer(over_the_wire(content))
        transport.members[party] = member(tmp_path / "killed", party, cross_site=True)
        transport.kills += 1

    class Killing(Noting):
        kills = 0

        def fetch(self, messages):
            self.asked_now = [self.sent[message] for message in messages]
            return super().fetch(messages)

    whole, *_ = validated(tmp_path / "whole")
    transport = Killing(agreeing(tmp_path / "killed", 0, 1, 2), killed)
    rows, *_ = validated(tmp_path, transport=transport)
    assert rows == whole
    assert transport.kills == 3 * (1 + 4 + 1)  # ask, four models, results
    for number in range(3):
        assert (helps(tmp_path / "killed", number)["cross_site"]
                == helps(tmp_path / "whole", number)["cross_site"])  # fmt: skip


@pytest.mark.parametrize("step", range(6))
def test_a_server_that_is_killed_asks_the_same_again(tmp_path, step):
    whole, *_ = validated(tmp_path / "whole")

    class Dying(Noting):
        """The server dies when the parties have answered one step of cross-site validation."""

        left = 1 + step

        def fetch(self, messages):
            cross = any("cross" in self.sent[m][1].get("request", {}) for m in messages)
            found = super().fetch(messages)
            self.left -= cross
            if cross and not self.left:
                raise MemoryError
            return found

    transport = Dying(agreeing(tmp_path, 0, 1, 2))
    run, _ = hosted(tmp_path, transport, CROSS, out=tmp_path / "run")
    with pytest.raises(MemoryError):
        list(run)
    stage = FederationStage(FEDERATION, tmp_path, transport)
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
    list(resumed)
    assert crossed(resumed.events) == whole
    assert resumed.result().cross_site == resumed.directory.result().cross_site
    assert len(resumed.directory.result().cross_site) == 4
    assert helps(tmp_path, 2)["cross_site"] == helps(tmp_path / "whole", 2)["cross_site"]


def test_who_dies_is_left_out_after_a_while_and_the_others_go_on(tmp_path):
    class Dead(Noting):
        """Party 2 dies when it gets the model of party 0, and never comes back."""

        def fetch(self, messages):
            for party, content in [self.sent[message] for message in messages]:
                if content.get("request", {}).get("cross", {}).get("model") == 0 and party == 2:
                    self.away = {2}
            return super().fetch([m for m in messages if self.sent[m][0] not in self.away])

    whole, *_ = validated(tmp_path / "whole")
    transport = Dead(agreeing(tmp_path, 0, 1, 2))
    rows, _, said, _ = validated(tmp_path, transport=transport)
    assert [(row.model, row.clients) for row in rows] == [
        (-1, [0, 1, 2]), (0, [0, 1]), (1, [0, 1]), (2, [0, 1])
    ]  # fmt: skip
    for row, other in zip(rows, whole, strict=True):
        assert row.right == other.right[: len(row.right)]
    assert "cross-site validation goes on without hospital-c, which has not answered" in said
    assert "hospital-c" in [row["party"] for row in helps(tmp_path, 0)["cross_site"]["here"]]
    assert "cross_site" not in helps(tmp_path, 2)


def test_who_fails_once_or_comes_back_in_time_is_not_left_out(tmp_path):
    whole, *_ = validated(tmp_path / "whole")
    failed = []

    def fails(transport, party, cross):
        if party == 1 and cross.get("model") == 0 and len(failed) < 2:
            failed.append(cross)
            transport.members[1]._audit._path = tmp_path / "nowhere" / "audit.jsonl"
        elif party == 1:
            transport.members[1]._audit._path = tmp_path / PARTIES[1] / "audit.jsonl"

    transport = Noting(agreeing(tmp_path, 0, 1, 2), fails)
    rows, _, said, _ = validated(tmp_path, transport=transport)
    assert rows == whole
    assert len(failed) == 2
    assert "hospital-b could not answer; its own log says why" in said


@pytest.mark.parametrize(("most", "clients"), [(9.0, [0, 1, 2]), (0.6, [0, 2])])
def test_who_is_at_work_is_waited_for_longer_but_not_for_ever(tmp_path, monkeypatch, most, clients):
    monkeypatch.setattr(courier, "LAST_WAIT", 0.2)
    monkeypatch.setattr(courier, "MOST_WAIT", most)

    class Slow(Noting):
        """Party 1 takes more than a second to test the first model."""

        since = None

        def fetch(self, messages):
            now = time.monotonic()
            ready = []
            for message in messages:
                party, content = self.sent[message]
                first = content.get("request", {}).get("cross", {}).get("model") == -1
                if first and party == 1:
                    self.since = self.since or now
                if not first or party != 1 or now - self.since > 1.2:
                    ready.append(message)
            return super().fetch(ready)

    transport = Slow(agreeing(tmp_path, 0, 1, 2))
    rows, *_ = validated(tmp_path, transport=transport)
    assert [row.clients for row in rows] == [clients] * 4


# Answers that cannot be right


def more_right_than_samples(cross):
    if "right" in cross:
        cross["right"] = cross["samples"] + 1


def negative(cross):
    if "right" in cross:
        cross["right"] = -1


def other_samples_later(cross):
    if cross.get("model") == 0:
        cross["samples"] += 1


def another_model(cross):
    if cross.get("model") == 0:
        cross["model"] = 1


def a_number_that_is_none(cross):
    if "right" in cross:
        cross["right"] = 3.5


def not_finite(cross):
    if isinstance(cross.get("model"), dict):
        cross["model"]["head.bias"][0] = torch.inf


def another_shape(cross):
    if isinstance(cross.get("model"), dict):
        cross["model"]["head.bias"] = torch.zeros(99)


def no_model(cross):
    if isinstance(cross.get("model"), dict):
        del cross["model"]


def no_answer(cross):
    cross.clear()


@pytest.mark.parametrize(("spoil", "why", "left"), [
    (more_right_than_samples, "its number of right predictions is 121; expected 0 to 120", 0),
    (negative, "its number of right predictions is -1", 0),
    (other_samples_later, "its number of test samples is 121, not 120", 1),
    (another_model, "its model is 1, not 0", 1),
    (a_number_that_is_none, "its number of right predictions is 3.5", 0),
    (not_finite, "'head.bias' has values that are not finite", None),
    (another_shape, "'head.bias' has the shape", None),
    (no_model, "it agrees to cross-site validation, and its model is missing", None),
    (no_answer, "it does not say whether it agrees", None),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_spoilt_answers_are_named_and_change_nothing_of_the_others(tmp_path, spoil, why, left):
    class Spoiling(Noting):
        def fetch(self, messages):
            of = {message: self.sent[message][0] for message in messages}
            found = dict(super().fetch(messages))
            for message, delivery in found.items():
                if of[message] == 2 and (cross := (delivery.content or {}).get("cross")):
                    spoil(cross)
            return found

    whole, *_ = validated(tmp_path / "whole")
    transport = Spoiling(agreeing(tmp_path, 0, 1, 2))
    rows, _, said, _ = validated(tmp_path, transport=transport)
    assert any(line.startswith(f"rejected what hospital-c has sent: {why}") for line in said)
    models = [-1, 0, 1] if left is None else [-1, 0, 1, 2]
    assert [row.model for row in rows] == models
    for place, (row, other) in enumerate(zip(rows, whole, strict=False)):
        known = 3 if left is not None and place < left else 2
        assert (row.clients, row.right) == ([0, 1, 2][:known], other.right[:known])


# Streams


def test_heads_of_other_widths_are_tested_and_streams_too(tmp_path):
    sources = []
    for name, words in (("a", "xy"), ("b", "yz"), ("c", "xw")):
        folder = tmp_path / f"in-{name}"
        folder.mkdir()
        rows = "".join(
            f"{40 * 'xyzw'.index(words[n % 2]) + n % 7},{n % 3},{words[n % 2]}\n" for n in range(60)
        )
        (folder / "0.csv").write_text("u,v,label\n" + rows)
        values = {"dataset": f"watch:{folder}", "idle": 0.3, "window": 10, "label": "label",
                  "test": str(folder / "0.csv")}  # fmt: skip
        sources.append(open_source(values, False, print))
    parties = {k: member(tmp_path, k, s, cross_site=True) for k, s in enumerate(sources)}
    settings = {"method": "er", "memory": 20, "hidden": 8, "burn_in": 1, "q": 2, "patience": 0.5,
                "min_clients": 2, "cross_site": True}  # fmt: skip
    transport = Noting(parties)
    rows, run, _, _ = validated(tmp_path, settings, transport=transport)
    assert [(row.model, row.clients, row.samples) for row in rows] == [
        (model, [0, 1, 2], [60, 60, 60]) for model in (-1, 0, 1, 2)
    ]
    assert len(run.labels) == 4
    for number in range(3):
        last = helps(tmp_path, number)["tasks"][-1]
        right = {row.model: row.right[number] for row in rows}
        assert last["global"] == round(100 * right[-1] / 60, 2)
        assert last["own"] == round(100 * right[number] / 60, 2)


def test_a_model_with_a_narrower_head_is_tested_as_it_would_have_grown(tmp_path):
    server = Asking(tmp_path, 0, 1)
    model = server.run.server.model
    narrow = {n: v[:6] if n.startswith("head.") else v for n, v in model.items()}
    given = server.asks({"step": "test", "model": 2, "name": "hospital-c"}, narrow)
    digits, rows = ofcl.load_dataset("digits"), rows_of_test(0)
    client = server.party._responder._client
    with client.holding(grown(narrow, 10, server.run.settings.seed)):
        x = client._held_out.test._prepare(digits.x_test[rows])
        right = int((client.model.eval()(x).argmax(1) == digits.y_test[rows]).sum())
    assert given == {"agrees": True, "model": 2, "right": right, "samples": 120}
