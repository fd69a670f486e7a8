"""Parties that are not honest, and a server that is not: each does little harm, and is named."""

import itertools
import math
import time
from dataclasses import replace

import pytest
import torch

from ofcl import OfclError, make_settings
from ofcl.engines.messages import Request, pack_request
from ofcl.events import Round
from ofcl.experiment import Run
from ofcl.federation.party_side import member as member_module
from ofcl.federation.party_side.ledger import Ledger
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.party_policy import USUAL, Policy, load_policy
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import load_party
from ofcl.federation.setup.organiser import create
from ofcl.federation.terms import Samples, Terms, agree, pack, travelling_settings
from ofcl.privacy import epsilon
from ofcl.safeguards.bounds import Bounds
from ofcl.safeguards.earlier_models import EarlierModels
from ofcl.server import Server
from ofcl.state import flatten, unflatten
from ofcl.storage.run_directory import RunDirectory
from ofcl.update import Update
from tests.support.federation import FEDERATION, SMALL, InProcess, hosted, member, members
from tests.support.remote import over_the_wire


class Spoiling(InProcess):
    """A transport on which the answers of the last party are changed by `spoil`."""

    def __init__(self, parties, spoil):
        super().__init__(parties)
        self.spoil = spoil

    def fetch(self, messages):
        of = {message: self.sent[message][0] for message in messages}
        found = dict(super().fetch(messages))
        for message, delivery in found.items():
            if of[message] == 2 and delivery.content is not None and "status" in delivery.content:
                self.spoil(delivery.content)
        return found


def far(answer):
    if answer["update"] is not None:
        for tensor in answer["update"]["state"].values():
            tensor.fill_(1e20)


def test_one_finite_update_cannot_end_a_run(tmp_path):
    run, said = hosted(tmp_path, Spoiling(members(tmp_path), far))
    rounds = [event for event in run if isinstance(event, Round)]
    assert len(rounds) > 3
    assert max(float(t.abs().max()) for t in run.server.model.values()) < 100
    assert any(line.startswith("hospital-c: its update goes ") for line in said)


def test_of_two_parties_the_smaller_update_is_the_usual_one():
    told = []
    bounds = Bounds(5.0, 3.0, lambda client, what: told.append(client))
    model = {"w": torch.zeros(2)}
    updates = [Update(0, {"w": torch.tensor([3.0, 4.0])}, 10, {}),
               Update(1, {"w": torch.tensor([1e20, 0.0])}, 10**9, {})]  # fmt: skip
    first, second = bounds.applied(updates, model)
    assert torch.equal(first.state["w"], updates[0].state["w"])
    assert torch.equal(second.state["w"], torch.tensor([25.0, 0.0]))
    assert (first.samples, second.samples) == (10, 30)
    assert told == [1, 1]


def test_parties_that_keep_their_updates_back_do_not_pull_back_the_others():
    told = []
    bounds = Bounds(5.0, 3.0, lambda client, what: told.append(client))
    model = {"w": torch.zeros(2)}
    learned = Update(0, {"w": torch.tensor([3.0, 4.0])}, 10, {})
    kept_back = [Update(k, model, 0, {}) for k in (1, 2)]
    first, *_ = bounds.applied([learned, *kept_back], model)
    assert torch.equal(first.state["w"], learned.state["w"])
    assert (first.samples, told) == (10, [])


def test_where_most_keep_back_the_rest_does_not_say_what_is_usual():
    told = []
    bounds = Bounds(5.0, 3.0, lambda client, what: told.append(client))
    model = {"w": torch.zeros(2)}
    learned = [Update(k, {"w": torch.tensor([3.0, 4.0])}, 10, {}) for k in range(3)]
    bounds.applied(learned, model)
    kept_back = [Update(k, model, 0, {}) for k in (0, 1)]
    for _ in range(6):  # it does not become usual with time
        *_, far = bounds.applied(
            [*kept_back, Update(2, {"w": torch.full((2,), 1e6)}, 10, {})], model
        )
        assert far.state["w"].norm().item() == pytest.approx(25)
    assert told == [2] * 6


def test_a_party_cannot_choose_its_weight(tmp_path):
    def heavy(answer):
        if answer["update"] is not None:
            answer["update"]["samples"] = answer["learned"] = 10**9

    run, said = hosted(tmp_path, Spoiling(members(tmp_path), heavy), {**SMALL, "min_clients": 2})
    list(run)
    assert any("rejected what hospital-c has sent: its number of mini" in line for line in said)
    assert any("hospital-c is in quarantine" in line for line in said)
    assert run.result().A is not None  # the run has ended


def test_a_spoilt_model_is_gone_back_from():
    earlier = EarlierModels()
    server = Server({"w": torch.ones(1)}, earlier=earlier, min_clients=1, previous=0.0)
    server.aggregate([Update(0, {"w": torch.full((1,), 1e9)}, 1, {})])
    held = server.model
    assert not earlier.spoilt([0.05], False)
    assert not earlier.spoilt([19.0], False)  # a new task has begun: nothing is wrong
    assert earlier.spoilt([500.0], False)
    assert server.go_back() == 0
    assert held["w"] == 1  # requests that are still to be sent have it
    assert [earlier.spoilt([], True) for _ in range(3)] == [False, False, True]


def test_a_model_that_was_put_aside_is_taken_again_after_a_restart():
    server = Server({"w": torch.ones(1)}, earlier=EarlierModels(), min_clients=1, previous=0.0)
    server.aggregate([Update(0, {"w": torch.full((1,), 2.0)}, 1, {})])
    assert [server.earlier.spoilt([], True) for _ in range(3)] == [False, False, True]
    assert (server.go_back(), server.model["w"]) == (0, 1)
    resumed = Server({"w": torch.zeros(1)}, earlier=EarlierModels(), min_clients=1, previous=0.0)
    resumed.load_state(unflatten(*flatten(server.state())))
    assert [resumed.earlier.spoilt([], True) for _ in range(3)] == [False, False, True]
    assert (resumed.go_back(), resumed.model["w"]) == (1, 2)
    assert [resumed.earlier.spoilt([], True) for _ in range(3)] == [False] * 3  # it was not that
    assert not resumed.earlier.spoilt([], False)  # nobody was asked: nothing is known
    assert not resumed.earlier.spoilt([0.1], False)  # somebody has learned with it
    assert [resumed.earlier.spoilt([], True) for _ in range(3)] == [False, False, True]


def test_all_earlier_models_are_tried_before_the_newest_is_taken_again():
    server = Server({"w": torch.zeros(1)}, earlier=EarlierModels(), min_clients=1, previous=0.0)
    failed = lambda: [server.earlier.spoilt([], True) for _ in range(3)][-1]  # noqa: E731
    assert failed()
    assert server.go_back() is None  # before the first round there is none
    assert not failed()  # which is said once
    assert not server.earlier.spoilt([0.1], False)
    for value in range(1, 8):
        server.aggregate([Update(0, {"w": torch.full((1,), float(value))}, 1, {})])
    found = [(server.go_back(), float(server.model["w"])) for _ in range(3) if failed()]
    assert found == [(5, 5.0), (0, 0.0), (7, 7.0)]
    assert not failed()


def test_a_party_that_is_let_in_again_learns(tmp_path):
    transport = Spoiling(members(tmp_path), lambda answer: answer.update(learned=-1))
    settings = {**SMALL, "min_clients": 2}
    run, said = hosted(tmp_path, transport, settings, out=tmp_path / "run")
    for event in run:
        if isinstance(event, Round) and any("quarantine" in line for line in said):
            break
    transport.spoil = lambda answer: None
    stage = FederationStage(FEDERATION, tmp_path, transport, readmitted=["hospital-c"])
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
    assert any(2 in event.clients for event in resumed if isinstance(event, Round))


# The policy


def attack(**more):
    values = {"method": "none", "batch_size": 1, "q": 1, "burn_in": 0, "steps": 1, "model": "mlp"}
    return {**travelling_settings(make_settings({**SMALL, **values, **more}))}


@pytest.mark.parametrize(("policy", "settings", "line"), [
    (USUAL, {}, "line 3: min_samples = 16"),
    (USUAL, {"batch_size": 1, "q": 16}, r"line 23: batch_size = \[2, 1000000\]"),
    (USUAL, {"method": "fedcil"}, "line 9: generators = false"),
    ("min_samples = 1\nmethods = ['cbr']", {}, r"line 2: methods = \['cbr'\]"),
    ("min_samples = 1\nmodels = ['convnet']", {}, r"line 2: models = \['convnet'\]"),
    ("min_samples = 1\nfeatures = false", {"classifier": "nearest-mean"}, "line 2: features = f"),
    ("min_samples = 1\nleast_noise = 1", {}, "line 2: least_noise = 1"),
    ("min_samples = 1\nmost_clip = 1.0", {"dp_clip": 2.0}, "line 2: most_clip = 1.0"),
    ("min_samples = 1", {}, None),
], ids=str)  # fmt: skip
def test_what_a_policy_refuses_is_told_with_its_line(tmp_path, policy, settings, line):
    (tmp_path / "policy.toml").write_text(policy)
    made, _ = load_policy(tmp_path)
    if line is None:
        made.check(attack(**settings))
    else:
        with pytest.raises(OfclError, match=f"refused by your policy: .*{line}"):
            made.check(attack(**settings))


@pytest.mark.parametrize("noise", ["-1", "nan", "inf"])
def test_noise_that_cannot_be_is_refused(tmp_path, noise):
    (tmp_path / "policy.toml").write_text(f"update_noise = {noise}")
    with pytest.raises(OfclError, match="update_noise is .*; expected 0 or more"):
        load_policy(tmp_path)


def test_the_file_has_the_usual_policy_and_documented_runs_are_not_refused(tmp_path):
    (tmp_path / "policy.toml").write_text(USUAL)
    made, _ = load_policy(tmp_path)
    without = {name: value for name, value in vars(made).items() if name != "lines"}
    assert without == {n: v for n, v in vars(Policy()).items() if n != "lines"}
    assert "usual limits" in load_policy(tmp_path / "nowhere")[1]
    for protocol in ("strong", "sound", "published"):
        made.check(travelling_settings(make_settings({"protocol": protocol})))
    tutorial = {"protocol": "sound", "method": "bi", "memory": 60, "tasks": 3, "q": 4}
    made.check(travelling_settings(make_settings(tutorial)))


def inverted(folder, policy, **settings):
    """What the server gets out of a party's first update: a sample for each hidden unit."""
    source = open_source({"dataset": "digits"}, True, lambda _: None)
    values = attack(hidden=64, optimizer="sgd", lr=0.1, augment="none", tasks=1, **settings)
    terms = Terms(values, 3, tuple("0123456789"), 10, source.samples())
    run, _ = hosted(folder, InProcess(members(folder / "form")), {**SMALL, "hidden": 64})
    model = run.server.model
    party = member(folder, 0, source, policy=policy)
    request = Request("ab", 1, (), model)
    answer = party.answer(over_the_wire({"request": pack_request(request), "terms": pack(terms)}))
    sent = over_the_wire(answer)["update"]["state"]
    weight, bias = (sent[n] - model[n] for n in ("hidden.weight", "hidden.bias"))
    units = bias.abs() > 1e-6
    dataset = source._dataset
    truth = dataset.prepare(dataset.x_train).flatten(1)
    return (weight[units] / bias[units, None]), truth


def error_of(guesses, truth):
    """The least mean error of any guess from any sample."""
    return float(torch.cdist(guesses, truth).min()) / math.sqrt(truth.shape[1])


def errors_of(guesses, truth):
    """The error of each guess from the sample that it is nearest to."""
    return torch.cdist(guesses, truth).min(dim=1).values / math.sqrt(truth.shape[1])


def test_samples_are_recovered_without_a_policy_and_not_with_the_usual_one(tmp_path):
    none = Policy(min_samples=1, min_rest=1, update_noise=0.0, ranges={})
    guesses, truth = inverted(tmp_path / "a", none)
    assert error_of(guesses, truth) < 1e-3  # pixel for pixel
    with pytest.raises(OfclError, match="refused by your policy"):
        inverted(tmp_path / "b", Policy())


def with_noise_of(seed, monkeypatch):
    """Lets parties draw their noise from a seed, not from the system."""
    draws = torch.Generator().manual_seed(seed)
    party = "ofcl.federation.party_side.member.system_normal"
    monkeypatch.setattr(party, lambda shape: torch.randn(shape, generator=draws))


def test_from_larger_updates_single_samples_are_recovered_unless_there_is_noise(tmp_path):
    """A hidden unit that one sample alone has moved shows it, whatever the others are."""
    exact = Policy(update_noise=0.0)
    guesses, truth = inverted(tmp_path / "a", exact, batch_size=16)
    mean = error_of(truth.mean(0, keepdim=True), truth)
    errors = errors_of(guesses, truth)
    assert float(errors.median()) >= mean  # most guesses are worth nothing
    assert 0 < int((errors < 1e-3).sum()) < 8  # but docs/security.md says that some are right
    noisy = Policy(least_noise=0.1, update_noise=0.0)
    with pytest.raises(OfclError, match="least_noise is 0.1"):
        inverted(tmp_path / "b", noisy, batch_size=16)
    guesses, truth = inverted(tmp_path / "c", noisy, batch_size=16, dp_clip=1.0, dp_noise=0.1)
    assert float(errors_of(guesses, truth).min()) >= mean


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("samples", [16, 128])
def test_the_usual_policy_hides_single_samples_in_noise(tmp_path, monkeypatch, samples, seed):
    """No guess comes as near to any sample of the dataset as the mean image does."""
    with_noise_of(seed, monkeypatch)
    guesses, truth = inverted(tmp_path, Policy(), batch_size=samples)
    mean = error_of(truth.mean(0, keepdim=True), truth)
    assert len(guesses) > 50
    assert float(errors_of(guesses, truth).min()) >= mean


def test_the_ledger_adds_up_all_runs_on_the_same_data(tmp_path):
    settings = {"dp_clip": 1.0, "dp_noise": 4.0}
    ledger = Ledger(tmp_path, "data")
    assert ledger.epsilon(1e-5) == 0
    ledger.note("ab", settings, 3)
    ledger.note("cd", settings, 5)
    again = Ledger(tmp_path, "data")
    assert again.epsilon(1e-5) == pytest.approx(epsilon(8, 4.0, 1e-5))
    assert "8 updates in 2 runs" in again.in_words({})
    assert Ledger(tmp_path, "other").epsilon(1e-5) == 0
    again.note("ef", {"dp_clip": None}, 1)
    assert again.epsilon(1e-5) == math.inf


def test_a_party_stops_when_its_epsilon_is_spent(tmp_path):
    settings = {**SMALL, "dp_clip": 1.0, "dp_noise": 4.0}
    most = epsilon(2, 4.0, 1e-5) + 1e-6
    parties = {**members(tmp_path), 2: member(tmp_path, 2, policy=Policy(most_epsilon=most))}
    run, said = hosted(tmp_path, InProcess(parties), {**settings, "min_clients": 2})
    for _ in run:
        if any("hospital-c could not answer" in line for line in said):
            break
    assert (
        Ledger(tmp_path / "hospital-c", parties[2]._source.fingerprint).released(
            run.engine._standing.run
        )
        == 2
    )


# Columns and scaling


def table(folder, number, columns="abc", unit=1.0):
    draw = torch.Generator().manual_seed(number)
    rows = [",".join([*columns, "label"])]
    for n in range(60):
        values = dict(zip("abc", (torch.randn(3, generator=draw) + n % 2).tolist(), strict=True))
        rows.append(",".join(f"{values[c] * unit:.4f}" for c in columns) + f",{'xy'[n % 2]}")
    path = folder / f"{number}.csv"
    path.write_text("\n".join(rows))
    return open_source({"dataset": str(path), "label": "label"}, False, lambda _: None)


def introductions(tmp_path, sources):
    from ofcl.federation.terms import Introduction

    return {f"hospital-{'abc'[k]}": Introduction(f"hospital-{'abc'[k]}", s.labels, s.samples())
            for k, s in enumerate(sources)}  # fmt: skip


def test_columns_in_another_order_are_named_and_left_out(tmp_path):
    sources = [table(tmp_path, 0, "cab"), table(tmp_path, 1), table(tmp_path, 2)]
    said = []
    agreed = agree(introductions(tmp_path, sources), 2, said.append)
    assert agreed.odd == ("hospital-a",)  # the first one is odd, and the second is not blamed
    assert "order them with --set columns=a,b,c" in said[0]
    with pytest.raises(OfclError, match="hospital-a has other samples than hospital-b, hospital-c"):
        agree(introductions(tmp_path, sources), 3)


def test_all_parties_scale_alike(tmp_path):
    sources = [table(tmp_path, k) for k in range(3)]
    agreed = agree(introductions(tmp_path, sources)).samples
    raw = torch.cat([torch.from_numpy(
        s._dataset.x_train.double().numpy() * s._dataset.form.scale + s._dataset.form.mean)
        for s in sources])  # fmt: skip
    assert agreed.mean == pytest.approx(raw.mean(0).tolist(), abs=1e-4)
    assert agreed.std == pytest.approx(raw.std(0, correction=0).tolist(), abs=1e-4)


def test_images_are_scaled_by_the_statistics_of_all_parties(tmp_path):
    """Before, the first party's mean and deviation held for all."""
    said = introductions(tmp_path, [open_source({"dataset": "digits"}, True, print)] * 2)
    first = said["hospital-a"].samples
    other = replace(first, mean=(0.9,), std=(0.1,))
    said["hospital-b"] = replace(said["hospital-b"], samples=other)
    agreed = agree(said).samples
    between = (first.mean[0] - 0.9) / 2
    assert agreed.mean == pytest.approx([first.mean[0] - between])
    assert agreed.std[0] ** 2 == pytest.approx((first.std[0] ** 2 + 0.01) / 2 + between**2)


def test_a_deviation_of_zero_is_rejected(tmp_path):
    from ofcl.engines.rejection import Rejected
    from ofcl.federation.terms import unpack_introduction

    state = over_the_wire(member(tmp_path, 0).answer({}))
    state["samples"]["std"] = [0.0]
    with pytest.raises(Rejected, match="mean and deviation"):
        unpack_introduction(state)


# Lost and forked states


def test_a_lost_state_is_noticed_on_both_sides_and_the_party_decides(tmp_path, monkeypatch):
    import shutil

    monkeypatch.setattr(member_module, "LOST_WAIT", 0.0)
    transport = InProcess(members(tmp_path))
    run, said = hosted(tmp_path, transport, {**SMALL, "min_clients": 2})
    lost, told = False, []
    for event in run:
        if isinstance(event, Round) and event.round == 2 and not lost:
            lost = True
            shutil.rmtree(tmp_path / "hospital-c" / "runs")
            transport.members[2] = member(tmp_path, 2)
            transport.members[2]._tell = told.append
        if any("hospital-c has 0 mini-batches of the" in line for line in said):
            transport.members[2] = member(tmp_path, 2, accept_loss=True)
    assert any("--accept-loss" in line for line in told)
    assert any("hospital-c goes on without" in line for line in said)


# Files


def test_a_lock_that_is_a_link_empties_nothing(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(victim)
    with pytest.raises(OfclError, match="is a link"):
        RunDirectory(tmp_path / "run").lock()
    assert victim.read_text() == "precious"


def test_a_key_that_others_can_read_is_refused(tmp_path):
    create(tmp_path / "trial", FEDERATION)
    folder = tmp_path / "trial" / "hospital-a"
    assert (folder / "policy.toml").read_text() == USUAL
    load_party(folder)
    (folder / "key").chmod(0o666)
    with pytest.raises(OfclError, match="chmod 600"):
        load_party(folder)


def test_a_form_of_an_earlier_version_is_read():
    from ofcl.federation.terms import unpack_samples

    old = {"way": "dataset", "kind": "vector", "shape": [3], "mean": [], "std": [],
           "embedder": None}  # fmt: skip
    assert unpack_samples(old) == Samples("dataset", "vector", (3,), (), (), None)


# One party cannot hold up everybody


def test_labels_that_exceed_the_memory_are_told_with_who_brings_them(tmp_path):
    from ofcl.federation.server_side.agreement import make_agreement

    said = introductions(tmp_path, [table(tmp_path, k) for k in range(3)])
    many = replace(said["hospital-c"], labels=tuple(f"label {n}" for n in range(31)))
    came = {0: said["hospital-a"], 1: said["hospital-b"], 2: many}
    settings = make_settings({**SMALL, "memory": 30})
    with pytest.raises(OfclError, match="hospital-a 2, hospital-b 2, hospital-c 31"):
        make_agreement(came, FEDERATION.parties, settings, 3, print, {})


def test_ten_thousand_new_labels_in_every_answer_are_rejected(tmp_path):
    count = itertools.count()

    def named(answer):
        answer["labels"] = [f"label {next(count)}" for _ in range(10_000)]

    settings = {**SMALL, "min_clients": 2, "limit": 6, "tasks": 1}
    run, said = hosted(tmp_path, Spoiling(members(tmp_path), named), settings)
    list(run)
    assert len(run.labels) == 10
    assert any("hospital-c is in quarantine" in line for line in said)


def test_an_answer_with_200000_events_is_rejected_at_once(tmp_path):
    event = {"event": "learned", "client": 2, "task": 0, "batches": 1, "samples": 1, "loss": 1.0,
             "correct": 0}  # fmt: skip
    settings = {**SMALL, "min_clients": 2, "limit": 3, "tasks": 1}
    run, said = hosted(tmp_path, InProcess(members(tmp_path)), settings)
    request = run.engine._standing.request(2, run.server.model)
    answer = {"run": request.run, "exchange": 1, "client": 2, "events": [event] * 200_000}
    began = time.process_time()
    assert run.engine._intake.read(answer, request, 2) is None
    assert time.process_time() - began < 1.0
    assert "rejected what hospital-c has sent: it tells of 200000 events" in said[-1]


@pytest.mark.parametrize(("events", "cells", "why"), [
    (900, 5000, "its tests have 4500000 confusions; expected 200000 at most"),
    (1, 101, "its confusions cannot be"),  # of ten classes: some come twice
])  # fmt: skip
def test_an_answer_with_few_but_fat_events_is_rejected_at_once(tmp_path, events, cells, why):
    event = {"event": "evaluated", "client": 2, "task": 0, "test": [], "validation": [],
             "global_test": [], "confusions": [[0, 0, 1]] * cells}  # fmt: skip
    transport = Spoiling(members(tmp_path), lambda answer: answer.update(events=[event] * events))
    settings = {**SMALL, "min_clients": 2, "limit": 3, "tasks": 1}
    run, said = hosted(tmp_path, transport, settings)
    began = time.process_time()
    list(run)
    assert time.process_time() - began < 15  # 900 of them took 23 s
    assert any(f"rejected what hospital-c has sent: {why}" in line for line in said)
    assert run.result().rounds > 0
