"""Runs whose models predict by the nearest mean of the memory's features."""

import pytest
import torch
from safetensors.torch import load_file

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.algorithm import federate
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.assembly.make_learner import build_model
from ofcl.bundle.open_bundle import open_bundle
from ofcl.engines.local import LocalEngine
from ofcl.events import Evaluated, Round, TaskEnded
from ofcl.methods.nearest_mean import as_tested
from ofcl.models.prototypes import COUNTS, PROTOTYPES, NearestMean, feature_sums, prototypes
from tests.conftest import TINY, make_blobs
from tests.support.remote import assert_same

NEAREST = {**TINY, "method": "cbr", "classifier": "nearest-mean", "closing_round": "task"}


def at_task_ends(values, data):
    """A run; after each end of a task, for all clients, a copy of the prototypes."""
    parties = dataset_participants(make_settings(values), data)
    engine, found = LocalEngine(parties.clients), []
    for event in federate(engine, parties.server):
        if isinstance(event, TaskEnded):
            found.append(dict(parties.server.prototypes))
    return parties, found


def test_the_servers_prototypes_are_those_of_all_memories_together(blobs):
    parties, found = at_task_ends({**NEAREST, "clients": 3}, blobs)
    memories = [client.learner.memory for client in parties.clients]
    model = build_model(parties.settings, blobs)
    model.load_state_dict(parties.server.model)
    x = torch.cat([memory.x for memory in memories])
    y = torch.cat([memory.samples.y for memory in memories])
    expected = prototypes([feature_sums(model, x, y)])
    assert torch.allclose(parties.server.prototypes[PROTOTYPES], expected[PROTOTYPES], atol=1e-6)
    assert torch.equal(parties.server.prototypes[COUNTS], expected[COUNTS])
    assert int(expected[COUNTS].sum()) == len(y) == sum(map(len, memories))
    seen = [[int(n) for n in means[COUNTS].nonzero().flatten()] for means in found]
    assert [len(classes) for classes in seen] == [2, 4, 6]  # those that nobody has seen have none


def test_a_round_takes_back_the_prototypes_of_the_model_before(blobs):
    parties = dataset_participants(make_settings(NEAREST), blobs)
    ends = 0
    for event in federate(LocalEngine(parties.clients), parties.server):
        ends += isinstance(event, TaskEnded)
        if isinstance(event, Round):
            assert parties.server.prototypes == {}
    assert ends == 3
    assert parties.server.prototypes.keys() == {PROTOTYPES, COUNTS}


def test_clients_are_tested_with_all_prototypes_if_their_model_is_the_global_one(blobs):
    tests, hard = {}, {"clients": 3, "memory": 6, "label_noise": 0.4}
    for mixing in (1.0, 0.5):
        run = Run(make_settings({**NEAREST, **hard, "mixing": mixing}), blobs)
        events = [event for event in run if isinstance(event, Evaluated)]
        tests[mixing] = [(event.test, event.global_test) for event in events]
    assert all(own == of_global for own, of_global in tests[1.0])
    assert any(own != of_global for own, of_global in tests[0.5])


def test_it_learns_and_the_saved_model_predicts_what_the_result_says(tmp_path, blobs):
    values = {**NEAREST, "classifier": "nearest-mean", "limit": None}
    result = ofcl.run(blobs, out=tmp_path / "run", **values)
    assert result.A > 90
    saved = load_file(tmp_path / "run" / "model.safetensors")
    means = {name: saved.pop(name) for name in (PROTOTYPES, COUNTS)}
    assert means[PROTOTYPES].shape == (6, 16)
    settings = dataset_participants(make_settings(values), blobs).settings
    model = build_model(settings, blobs)
    model.load_state_dict(saved)
    predicted = NearestMean(model.eval(), means)(blobs.x_test).argmax(1)
    assert 100 * (predicted == blobs.y_test).float().mean().item() == pytest.approx(result.global_A)
    loaded = ofcl.load(tmp_path / "run")
    assert loaded.description.classifier == "nearest-mean"
    labels = [f"class {c}" for c in predicted.tolist()]
    assert loaded.predict(blobs.x_test.numpy()).tolist() == labels
    assert loaded.embed(blobs.x_test.numpy()).shape == (60, 16)


@pytest.mark.parametrize(("change", "problem"), [
    ({PROTOTYPES: torch.zeros(5, 16)}, r"'prototypes' is torch.float32 \(5, 16\)"),
    ({PROTOTYPES: torch.zeros(6, 16).double()}, "'prototypes' is torch.float64"),
    ({PROTOTYPES: torch.full((6, 16), torch.nan)}, "values that cannot be"),
    ({COUNTS: torch.zeros(6).long()}, "values that cannot be"),
    ({COUNTS: torch.full((6,), -1)}, "values that cannot be"),
    ({COUNTS: torch.ones(5).long()}, "values that cannot be"),
    ({COUNTS: None}, "lack 'prototypes' or 'prototype_counts'"),
])  # fmt: skip
def test_a_bundle_with_prototypes_that_cannot_be_is_refused(nearest_bundle, change, problem):
    tensors = {**nearest_bundle.tensors, **change}
    tensors = {name: value for name, value in tensors.items() if value is not None}
    with pytest.raises(OfclError, match=problem):
        open_bundle(nearest_bundle._replace(tensors=tensors))


@pytest.fixture(scope="module")
def nearest_bundle(blobs):
    run = Run(make_settings({**NEAREST, "limit": 3}), blobs)
    for _ in run:
        pass
    return run.bundle()


def test_learning_is_the_same_and_the_head_has_no_prototypes(blobs):
    """Only tests differ: the model of both runs is bit for bit the same."""
    nearest, _ = at_task_ends(NEAREST, blobs)
    head, found = at_task_ends({**NEAREST, "classifier": "head"}, blobs)
    assert_same(nearest.server.model, head.server.model)
    assert found == [{}] * 3
    assert head.server.prototypes == {}


def test_the_bytes_of_sums_and_prototypes_are_counted(blobs):
    events = [e for e in Run(make_settings(NEAREST), blobs) if isinstance(e, TaskEnded)]
    each = 6 * 16 * 4 + 6 * 8  # of two clients: classes × features, and a count of each class
    assert [(e.bytes_sent, e.bytes_received) for e in events] == [(2 * (each + 8), 2 * each)] * 3
    with_means = ofcl.run(blobs, **NEAREST)
    without = ofcl.run(blobs, **{**NEAREST, "classifier": "head"})
    assert with_means.bytes_sent - without.bytes_sent == 3 * 2 * (each + 8)


@pytest.mark.parametrize("behind", [-1, 0, 1, 3])  # events after the end of a task for all
def test_a_run_that_stops_ends_like_one_that_did_not(tmp_path, blobs, behind):
    made = make_settings({**NEAREST, "checkpoint_every": 1})
    whole = Run(made, blobs)
    ended = [isinstance(event, TaskEnded) for event in whole].index(True)
    run = Run(made, blobs, tmp_path / "run")
    for n, _ in enumerate(run):
        run.save()
        if n == ended + behind:
            break
    resumed = Run.resume(tmp_path / "run", blobs)
    for _ in resumed:
        pass
    assert_same(resumed.server.model, whole.server.model)
    assert_same(resumed.server.prototypes, whole.server.prototypes)
    assert resumed.result().accuracy == whole.result().accuracy
    assert resumed.result().global_accuracy == whole.result().global_accuracy


def readings(seed):
    """Three classes, of which the last comes late."""
    draw = torch.Generator().manual_seed(seed)
    for n in range(60):
        c = n % 2 if n < 30 else n % 3
        x = 0.3 * torch.randn(4, generator=draw)
        x[c] += 2
        yield x.numpy(), "abc"[c]


def test_streams_with_classes_that_nobody_announced():
    values = {"memory": 20, "hidden": 16, "classifier": "nearest-mean"}
    run = Run(make_settings(values), streams=[readings(0), readings(1)], test=list(readings(2)))
    for _ in run:
        pass
    assert run.server.prototypes[PROTOTYPES].shape == (3, 16)
    assert run.result().global_A > 90


def test_with_an_empty_memory_and_nothing_known_the_head_predicts(blobs):
    (client, _) = dataset_participants(make_settings(NEAREST), blobs).clients
    assert as_tested(client.model, "nearest-mean", client.learner.memory, {}) is client.model


@pytest.mark.parametrize(("values", "problem"), [
    ({"method": "none"}, "needs remembered samples, of which none has none"),
    ({"method": "mfcl"}, "needs remembered samples, of which mfcl has none"),
    ({"dp_clip": 1.0}, "sends sums of features without noise"),
    ({"closing_round": "none", "protocol": "sound"}, "--set closing_round=task"),
])  # fmt: skip
def test_what_cannot_be_done_is_refused(values, problem):
    with pytest.raises(OfclError, match=problem):
        ofcl.run(make_blobs(), **{**NEAREST, **values})
