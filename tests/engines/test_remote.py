"""Clients elsewhere: the same learning as in one process, whatever happens to messages."""

import contextlib
import random
from collections import Counter

import pytest
import torch

from ofcl import make_settings
from ofcl.algorithm import federate
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.compute.devices import Lanes
from ofcl.engines.gate import Gate
from ofcl.engines.local import LocalEngine
from ofcl.engines.messages import pack_request, unpack_request
from ofcl.engines.rejection import Rejected
from ofcl.engines.remote import RemoteEngine
from ofcl.engines.responder import OldRequest, Responder
from ofcl.evaluation.results import summarise
from ofcl.events import Evaluated, Learned, Remembered, Round
from ofcl.state import flatten, unflatten
from ofcl.update import Update
from tests.conftest import TINY, TINY_IMAGES


def over_the_wire(state):
    """What arrives of a state: tensors by name, and JSON."""
    tensors, tree = flatten(state)
    return unflatten({name: tensor.clone() for name, tensor in tensors.items()}, tree)


class Courier:
    """A courier in this process, which may lose, repeat and delay what it carries."""

    def __init__(self, folder, settings, data):
        self.settings, self.data, self.folder = settings, data, folder
        self.parties = {}
        for client in range(settings.clients):
            self.start(client)

    def start(self, client):
        """A party's process begins, for the first time or again."""

        def make():
            return dataset_participants(self.settings, self.data).clients[client]

        self.parties[client] = Responder(self.folder / str(client), make)

    def carry(self, client, request):
        received = unpack_request(over_the_wire(pack_request(request)))
        return over_the_wire(self.parties[client].answer(received))

    def exchange(self, requests):
        return {client: self.carry(client, request) for client, request in requests.items()}


def remotely(tmp_path, settings, data, post=Courier, **how):
    parties = dataset_participants(settings, data)
    courier = post(tmp_path, parties.settings, data)
    engine = RemoteEngine(settings.clients, courier, run="run", tell=lambda _: None, **how)
    return list(federate(engine, parties.server)), parties.server, courier


def locally(settings, data):
    parties = dataset_participants(settings, data)
    return list(federate(LocalEngine(parties.clients), parties.server)), parties.server


def result(events, settings):
    return summarise(events, clients=settings.clients, tasks=settings.tasks, seconds=0.0)


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("change", [
    {"method": "er"}, {"method": "bi"}, {"method": "bi", "protocol": "published"},
    {"aggregation": "weighted"}, {"aggregation": "fedprox"}, {"participation": 0.5},
    {"dropout": 0.4, "clients": 4}, {"batchnorm": "local"}, {"blurry": 0.3},
    {"method": "mfcl"}, {"method": "fedcil"},
], ids=str)  # fmt: skip
def test_remote_clients_learn_bit_for_bit_as_local_ones(tmp_path, images, change):
    few = {"synthetic": 8, "generator_steps": 2, "consolidation": 1}
    short = {"clients": 3, "batch_size": 3, "burn_in": 1, "limit": 4}
    settings = make_settings({**TINY_IMAGES, **few, **short, **change})
    events, server = locally(settings, images)
    elsewhere, remote_server, _ = remotely(tmp_path, settings, images)
    assert_same(server.model, remote_server.model)
    assert result(elsewhere, settings) == result(events, settings)
    assert sum(isinstance(event, Round) for event in events) == server.round > 0


@pytest.mark.parametrize("split", ["even", "dirichlet"])  # in step, out of step
def test_networks_that_are_stacked_locally_are_the_same_to_rounding(tmp_path, blobs, split):
    settings = make_settings({**TINY, "method": "er", "clients": 4, "split": split})
    _, server = locally(settings, blobs)
    _, remote_server, _ = remotely(tmp_path, settings, blobs)
    for name, value in server.model.items():
        assert torch.allclose(value, remote_server.model[name], atol=1e-5)


# What may happen to messages and processes


TROUBLES = ("", "", "", "lost", "answer lost", "twice", "killed while it learns",
            "killed before the answer", "an old one")  # fmt: skip


class Killed(Exception):
    pass


class Trouble(Courier):
    """Loses requests and answers, repeats requests, and kills parties before or after they save."""

    def __init__(self, folder, settings, data):
        super().__init__(folder, settings, data)
        self.draw, self.troubles, self.earlier = random.Random(0), Counter(), {}

    def exchange(self, requests):
        replies = {}
        for client, request in requests.items():
            reply = self.deliver(client, request)
            if reply is not None:
                replies[client] = reply
            self.earlier.setdefault(client, []).append(request)
        return replies

    def deliver(self, client, request):
        trouble = self.draw.choice(TROUBLES)
        self.troubles[trouble] += 1
        match trouble:
            case "lost":
                return None
            case "answer lost":
                self.carry(client, request)
                return None
            case "twice":
                first = self.carry(client, request)
                second = self.carry(client, request)
                assert_same(flatten(first)[0], flatten(second)[0])
            case "killed while it learns":
                party = self.parties[client]
                party._save = lambda client: (_ for _ in ()).throw(Killed)
                with pytest.raises(Killed):
                    self.carry(client, request)
                self.start(client)
            case "killed before the answer":
                self.carry(client, request)
                self.start(client)
            case "an old one":
                reply = self.carry(client, request)
                for old in self.earlier.get(client, [])[-2:]:
                    with pytest.raises(OldRequest):
                        self.carry(client, old)
                return reply
        return self.carry(client, request)


def batches_of(parties):
    return [party._client.learned for party in parties.values()]


@pytest.mark.parametrize("method", ["er", "bi"])
def test_nothing_is_learned_twice_or_skipped_whatever_happens(tmp_path, blobs, method):
    settings = make_settings({**TINY, "method": method, "clients": 3, "model": "mlp"})
    events, server = locally(settings, blobs)
    elsewhere, _, post = remotely(tmp_path, settings, blobs, Trouble)
    assert len(post.troubles) == 7
    learned = Counter(event.client for event in events if isinstance(event, Learned))
    assert batches_of(post.parties) == [learned[client] for client in range(3)]
    told = Counter(event.client for event in elsewhere if isinstance(event, Learned))
    assert told == learned  # an answer that was lost is told with the next
    ends = [(e.client, e.task) for e in elsewhere if isinstance(e, Evaluated)]
    assert sorted(ends) == [(client, task) for client in range(3) for task in range(3)]
    assert abs(result(elsewhere, settings).A - result(events, settings).A) < 15


def test_a_client_that_is_absent_misses_rounds_and_goes_on_from_the_global_model(tmp_path, blobs):
    class Absent(Courier):
        def exchange(self, requests):
            there = {k: r for k, r in requests.items()
                     if not (k == 2 and 3 <= r.exchange < 6)}  # fmt: skip
            self.taken = [r.steps for k, r in requests.items() if k == 2 and r.exchange == 6]
            self.steps = getattr(self, "steps", []) + self.taken
            return super().exchange(there)

    settings = make_settings({**TINY, "method": "er", "clients": 3, "q": 1, "burn_in": 0})
    events, _, post = remotely(tmp_path, settings, blobs, Absent, min_clients=2)
    rounds = [event.clients for event in events if isinstance(event, Round)]
    assert rounds[:2] == [[0, 1, 2], [0, 1, 2]]
    assert rounds[2:5] == [[0, 1]] * 3
    assert rounds[5] == [0, 1, 2]
    assert post.steps == [("take",)]


def test_with_too_few_clients_it_waits_and_says_for_whom(tmp_path, blobs):
    class Late(Courier):
        def exchange(self, requests):
            there = {k: r for k, r in requests.items() if k == 0 or r.exchange > 3}
            return super().exchange(there)

    settings = make_settings({**TINY, "method": "er", "clients": 3})
    parties, said = dataset_participants(settings, blobs), []
    post = Late(tmp_path, parties.settings, blobs)
    engine = RemoteEngine(3, post, run="run", min_clients=2, tell=said.append)
    rounds = [event for event in federate(engine, parties.server) if isinstance(event, Round)]
    assert said[:1] == ["waiting for client 1, client 2"]
    assert rounds[0].clients == [0, 1, 2]


@pytest.mark.parametrize("after", [1, 7, 30, 55])
def test_a_server_that_is_killed_goes_on_and_nobody_notices(tmp_path, blobs, after):
    settings = make_settings({**TINY, "method": "bi", "clients": 3})
    whole, server, _ = remotely(tmp_path / "whole", settings, blobs)

    saved = {}
    parties = dataset_participants(settings, blobs)
    post = Courier(tmp_path / "parties", parties.settings, blobs)

    def begin(parties, told):
        def save():
            state = {"engine": engine.state(), "server": parties.server.state()}
            saved.update(state=over_the_wire(state), events=list(told))

        engine = RemoteEngine(3, post, run="run", tell=lambda _: None, save=save)
        return engine

    told = []
    for event in federate(begin(parties, told), parties.server):
        told.append(event)
        if len(told) == after:
            break
    again = dataset_participants(settings, blobs)
    events = list(saved["events"])
    engine = begin(again, events)
    engine.load_state(saved["state"]["engine"])
    again.server.load_state(saved["state"]["server"])
    events += federate(engine, again.server)
    assert events == whole
    assert_same(again.server.model, server.model)


def test_another_run_begins_anew(tmp_path, blobs):
    settings = make_settings({**TINY, "method": "er"})
    parties = dataset_participants(settings, blobs)
    post = Courier(tmp_path, parties.settings, blobs)
    for run in ("first", "second"):
        server = dataset_participants(settings, blobs).server
        engine = RemoteEngine(2, post, run=run, tell=lambda _: None)
        events = list(federate(engine, server))
        assert sum(isinstance(event, Learned) for event in events) > 20


# The server trusts nobody


def gate_of(settings, server, **change):
    types = (Learned, Evaluated, Remembered)
    how = {"most_samples": 1000, "most_labels": 3, "batch_size": settings.batch_size,
           "most_tasks": settings.tasks, "event_types": types, **change}  # fmt: skip
    return Gate(server.model, classes=lambda: 6, **how)


@pytest.mark.parametrize("change", [{}, {"aggregation": "weighted"}, {"method": "none"}], ids=str)
def test_what_honest_clients_send_passes(tmp_path, blobs, change):
    settings = make_settings({**TINY, "method": "bi", "clients": 3, **change})
    gate = gate_of(settings, dataset_participants(settings, blobs).server,
                   class_counts="aggregation" in change)  # fmt: skip
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

    class Poisoner(Courier):
        """Client 0 sends two hundred and more answers that are wrong before a right one."""

        def exchange(self, requests):
            answers = super().exchange(requests)
            if 0 in answers and requests[0].exchange in (2, 4) and answers[0]["update"]:
                for _ in range(150):
                    bad = over_the_wire(answers[0])
                    way = spoil(bad, draw)
                    assert engine._read(bad, requests[0], 0) is None, way
                    spoilt[way] += 1
                del answers[0]  # the round is without it
            return answers

    class Silent(Courier):
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


# What a party does when something fails in it


def test_a_failure_in_the_middle_leaves_nothing_half_done(tmp_path, blobs, monkeypatch):
    settings = make_settings({**TINY, "method": "er", "clients": 2, "q": 3, "burn_in": 0})
    expected, server, _ = remotely(tmp_path / "whole", settings, blobs)

    class Failing(Courier):
        """The first client fails once, after some mini-batches of a stretch."""

        failed = 0

        def exchange(self, requests):
            answers = {}
            for client, request in requests.items():
                if client == 0 and request.exchange == 2 and not self.failed:
                    learner = self.parties[0]._client.learner
                    learn, calls = learner.learn, []

                    def learning(*arguments, learn=learn, calls=calls):
                        calls.append(1)
                        if len(calls) == 2:
                            raise RuntimeError("out of memory")
                        return learn(*arguments)

                    learner.learn = learning
                    with pytest.raises(RuntimeError, match="out of memory"):
                        self.carry(client, request)
                    self.failed += 1
                answers[client] = self.carry(client, request)
            return answers

    events, other, post = remotely(tmp_path / "failing", settings, blobs, Failing)
    assert post.failed == 1
    assert_same(other.model, server.model)
    told = Counter(e.client for e in events if isinstance(e, Learned))
    assert told == Counter(e.client for e in expected if isinstance(e, Learned))


def test_what_a_gpu_has_queued_is_told(tmp_path, blobs, monkeypatch):
    """With lanes that overlap, outcomes are told later; a party has no later."""
    settings = make_settings({**TINY, "method": "er", "clients": 2})
    expected, _ = locally(settings, blobs)

    class Overlapping(Lanes):
        """Lanes as those of a GPU, without one."""

        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.overlap = True

        def of(self, party):
            return contextlib.nullcontext()

        def join(self):
            pass

    monkeypatch.setattr("ofcl.engines.local.Lanes", Overlapping)
    events, _, _ = remotely(tmp_path, settings, blobs)
    told = [sum(isinstance(e, Learned) for e in found) for found in (events, expected)]
    assert told[0] == told[1] > 20


def test_a_task_is_begun_once_though_the_answer_is_lost(tmp_path, images):
    settings = make_settings({**TINY_IMAGES, "method": "mfcl", "clients": 2, "synthetic": 4,
                              "generator_steps": 2})  # fmt: skip
    begun = Counter()

    class Lossy(Courier):
        """The first answer after a task has begun does not arrive."""

        lost = False

        def start(self, client):
            super().start(client)
            party, make = self.parties[client], self.parties[client]._make

            def counting():
                made = make()
                begin = made.begin_task

                def begin_task(*arguments):
                    begun[client] += 1
                    return begin(*arguments)

                made.begin_task = begin_task
                return made

            party._make = counting

        def exchange(self, requests):
            answers = dict(super().exchange(requests))
            if not self.lost and 0 in requests and "begin-task" in requests[0].steps:
                self.lost = True
                del answers[0]
            return answers

    events, _, post = remotely(tmp_path, settings, images, Lossy, min_clients=2)
    assert post.lost
    assert begun == {0: settings.tasks - 1, 1: settings.tasks - 1}
    assert sum(isinstance(event, Evaluated) for event in events) == 2 * settings.tasks
