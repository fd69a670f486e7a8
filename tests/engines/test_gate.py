"""The server trusts no client: answers that cannot be right are rejected, and change nothing."""

import random
from collections import Counter

import pytest
import torch

from ofcl import make_settings
from ofcl.algorithm import federate
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.engines.gate import Gate
from ofcl.engines.messages import Request, pack_update
from ofcl.engines.rejection import Rejected, check_feature_sums
from ofcl.engines.remote import RemoteEngine
from ofcl.events import Evaluated, Learned, Remembered
from ofcl.update import Update
from tests.conftest import TINY
from tests.support.remote import InProcessChannel, assert_same, over_the_wire, remotely


def gate_of(settings, server, **change):
    types = (Learned, Evaluated, Remembered)
    how = {"most_samples": 1000, "most_labels": 3, "batch_size": settings.batch_size,
           "most_tasks": settings.tasks, "event_types": types, **change}  # fmt: skip
    return Gate(server.model, classes=lambda: 6, **how)


@pytest.mark.parametrize("change", [
    {}, {"aggregation": "weighted"}, {"method": "none"},
    {"classifier": "nearest-mean", "closing_round": "task"},
], ids=str)  # fmt: skip
def test_what_honest_clients_send_passes(tmp_path, blobs, change):
    settings = make_settings({**TINY, "method": "bi", "clients": 3, **change})
    gate = gate_of(settings, dataset_participants(settings, blobs).server,
                   class_counts="aggregation" in change,
                   most_remembered=settings.memory)  # fmt: skip
    events, server, _ = remotely(tmp_path / "a", settings, blobs, gate=gate)
    plain, other, _ = remotely(tmp_path / "b", settings, blobs)
    assert_same(server.model, other.model)
    assert server.round == other.round > 3
    assert events == plain


@pytest.mark.parametrize(("classes", "extras", "problem"), [
    ({0: 0}, {}, "number of samples of a class is 0; expected 1 to 5"),
    ({}, {"now": torch.tensor([99])}, "'now' is not a list of classes"),
    ({}, {"now": torch.tensor([0.5])}, "'now' is not a list of classes"),
    ({}, {"now": torch.tensor([1]), "past": torch.tensor([-1])}, "'past' is not a list"),
    ({}, {"past": torch.tensor([1])}, "the classes of its task are missing"),
    ({0: 5}, {"now": torch.tensor([0, 5])}, None),
])  # fmt: skip
def test_what_would_end_the_servers_run_is_rejected(blobs, classes, extras, problem):
    settings = make_settings({**TINY, "clients": 3})
    server = dataset_participants(settings, blobs).server
    gate = gate_of(settings, server, class_counts=True, extras=bool(extras))
    update = Update(0, dict(server.model), 5, classes, extras)
    if problem is None:
        gate._check_update(update, 0)
    else:
        with pytest.raises(Rejected, match=problem):
            gate._check_update(update, 0)


SUMS, COUNTS = torch.tensor([[2.0, 0.0], [0.6, 0.8]]), torch.tensor([3, 1])


@pytest.mark.parametrize(("change", "problem"), [
    ({}, None),
    ({"feature_sums": SUMS * torch.nan}, "'feature_sums' has values that are not finite"),
    ({"feature_sums": SUMS.double()}, "of another type"),
    ({"feature_counts": COUNTS.float()}, "of another type"),
    ({"feature_counts": "many"}, "'feature_counts' has values that are not finite"),
    ({"feature_sums": SUMS[:1]}, r"'feature_sums' has the shape \(1, 2\)"),
    ({"feature_counts": torch.ones(7).long()}, r"'feature_counts' has the shape \(7,\)"),
    ({"feature_counts": COUNTS[:, None]}, r"'feature_counts' has the shape \(2, 1\)"),
    ({"feature_counts": torch.tensor([-1, 1])}, "expected 10 at most in all"),
    ({"feature_counts": torch.tensor([10, 1])}, "expected 10 at most in all"),
    ({"feature_counts": torch.tensor([2**62, 2**62])}, "expected 10 at most in all"),
    ({"feature_counts": torch.tensor([1, 1])}, "longer than its samples allow"),
    ({"more": SUMS}, "has not the tensors that were asked for"),
])  # fmt: skip
def test_sums_of_features_that_cannot_be_are_rejected(change, problem):
    sums = {"feature_sums": SUMS, "feature_counts": COUNTS, **change}
    if problem is None:
        check_feature_sums(sums, 6, 2, 10)
    else:
        with pytest.raises(Rejected, match=problem):
            check_feature_sums(sums, 6, 2, 10)


@pytest.mark.parametrize(("asked", "change", "problem"), [
    (True, {}, None),
    (True, {"state": {"head.bias": torch.zeros(6)}}, "its survey has more than features"),
    (True, {"classes": [[0, 1]]}, "its survey has more than features"),
    (True, {"extras": {}}, "has not the tensors that were asked for"),
    (True, {"client": 1}, "client of the survey"),
    (False, {}, "its tensors are others"),
], ids=str)  # fmt: skip
def test_a_survey_passes_only_if_it_was_asked_for(blobs, asked, change, problem):
    settings = make_settings({**TINY, "clients": 3})
    parties = dataset_participants(settings, blobs)
    survey = pack_update(parties.clients[0].survey(parties.server.model))
    request = Request("run", 1, ("survey",) if asked else (), parties.server.model)
    reply = {"run": "run", "exchange": 1, "client": 0, "status": "between-tasks", "learned": 0,
             "released": 0, "events": [], "update": {**survey, **change}, "labels": [],
             "data": ""}  # fmt: skip
    gate = gate_of(settings, parties.server)
    if problem is None:
        assert gate.passed(reply, request, 0).update.extras.keys() == survey["extras"].keys()
        with pytest.raises(Rejected, match="asked for a survey, and its status is waiting"):
            gate.passed({**reply, "status": "waiting"}, request, 0)
    else:
        with pytest.raises(Rejected, match=problem):
            gate.passed(reply, request, 0)


def spoil(state, draw):
    """An answer in which one thing is wrong; what that is, in words."""
    update = state["update"]
    name = draw.choice(sorted(update["state"]))
    tensor = update["state"][name]
    odd = draw.choice([float("nan"), float("inf"), -float("inf")])
    number = draw.choice([-1, 10**9, 1.5, "7", None, True, [1]])
    ways = {
        "not finite": lambda: tensor.view(-1)[draw.randrange(tensor.numel()) :][:1].fill_(odd),
        "shape": lambda: update["state"].update({name: draw.choice(
            [tensor.unsqueeze(0), tensor.flatten()[:0], torch.zeros(7, 5, 3),
             torch.cat([tensor, tensor, tensor])])}),
        "type": lambda: update["state"].update({name: draw.choice(
            [tensor.double(), tensor.half(), tensor.long(), "tensor", None, 3.0])}),
        "missing": lambda: update["state"].pop(name),
        "more": lambda: update["state"].update({f"{name}.more": tensor}),
        "renamed": lambda: update["state"].update({name + "x": update["state"].pop(name)}),
        "samples": lambda: update.update(samples=number),
        "classes": lambda: update.update(classes=draw.choice(
            [[[0, 5]], [[-1, 2]], [["a", 2]], "many", [[1]], 5])),
        "extras": lambda: update.update(extras={"generator": torch.zeros(2)}),
        "other client": lambda: draw.choice([state, update]).update(
            client=draw.choice([1, 99, "0", None])),
        "exchange": lambda: state.update(exchange=draw.choice([0, 1, 10**6, -1, "2", None])),
        "run": lambda: state.update(run=draw.choice(["another", "", 5, None])),
        "status": lambda: state.update(status=draw.choice(["finished", "learning", "boss", 1])),
        "learned": lambda: state.update(learned=draw.choice([-1, 1.5, "7", None, [1]])),
        "no update": lambda: state.update(update=None),
        "field": lambda: state.pop(draw.choice(sorted(state))),
        "more fields": lambda: state.update(admin=True),
        "labels": lambda: state.update(labels=draw.choice(
            ["cat", ["a", "b", "c", "d"], [5], ["a\nb"], [""], ["x" * 201], None, {"a": 1}])),
        "events": lambda: state.update(events=draw.choice([
            [{"event": "round", "round": 1, "clients": [0], "samples": [1], "bytes_sent": 0,
              "bytes_received": 0}],
            [{"event": "learned", "client": 1, "task": 0, "batches": 1, "samples": 1, "loss": 0.0,
              "correct": 0}],
            [{"event": "learned", "client": 0, "task": 0, "batches": 1, "samples": 1, "loss": odd,
              "correct": 0}],
            [{"event": "evaluated", "client": 0, "task": 0, "test": [[[0, 9, 1]]],
              "validation": [], "global_test": []}],
            [{"event": "evaluated", "client": 0, "task": 0, "test": 5, "validation": [],
              "global_test": []}],
            *[[{"event": "evaluated", "client": 0, "task": 0, "test": [], "validation": [],
                "global_test": [], "confusions": odd_cells}] for odd_cells in (
                7, [7], [[0, 1]], [[0, 99, 1]], [[-1, 0, 1]], [[0, 0, "x"]])],
            [{"event": "explosion"}], ["text"], 7,
            [{"event": "appeared", "client": 0, "label": "x", "place": 0}],
            [{"event": "skipped", "client": 0, "source": "x", "row": 0, "problem": "x"}],
            *[[{"event": "learned", "client": 0, "task": 0, "batches": 1, "samples": 1, "loss": 1.0,
                "correct": 0, **odd_event}] for odd_event in (
                {"batches": "x"}, {"batches": -1}, {"task": [1]}, {"task": 10**9}, {"task": -1},
                {"samples": 10**6}, {"loss": "x"}, {"loss": None}, {"correct": 2})],
            [{"event": "evaluated", "client": 0, "task": 0, "test": [[], [], []],
              "validation": [], "global_test": []}]])),
        "no state": lambda: update.update(state=draw.choice([None, 5, "x", [], {}])),
        "odd extras": lambda: update.update(extras=draw.choice([5, None, "x", [1]])),
    }  # fmt: skip
    way = draw.choice(sorted(ways))
    ways[way]()
    return way


def test_spoilt_answers_are_rejected_and_named_and_change_nothing(tmp_path, blobs):
    draw, spoilt = random.Random(1), Counter()

    class Poisoner(InProcessChannel):
        """Client 0 sends two hundred and more answers that are wrong before a right one."""

        def exchange(self, requests):
            answers = super().exchange(requests)
            if 0 in answers and requests[0].exchange in (2, 4) and answers[0]["update"]:
                for _ in range(150):
                    bad = over_the_wire(answers[0])
                    way = spoil(bad, draw)
                    assert engine._intake.read(bad, requests[0], 0) is None, way
                    spoilt[way] += 1
                del answers[0]  # the round is without it
            return answers

    class Silent(InProcessChannel):
        """Client 0 does not answer where the other poisons."""

        def exchange(self, requests):
            answers = super().exchange(requests)
            if 0 in answers and requests[0].exchange in (2, 4) and answers[0]["update"]:
                del answers[0]
            return answers

    settings = make_settings({**TINY, "method": "er", "clients": 3, "q": 1, "burn_in": 0})
    parties, said = dataset_participants(settings, blobs), []
    post = Poisoner(tmp_path / "a", parties.settings, blobs)
    gate = gate_of(settings, parties.server)
    engine = RemoteEngine(3, post, run="run", min_clients=2, gate=gate, tell=said.append)
    events = list(federate(engine, parties.server))
    assert sum(spoilt.values()) == 300
    assert len(spoilt) == 21
    assert len(said) == 300
    assert all(line.startswith("rejected what client 0 has sent: ") for line in said)
    expected, server, _ = remotely(tmp_path / "b", settings, blobs, Silent, min_clients=2)
    assert_same(parties.server.model, server.model)
    assert events == expected
