"""Clients elsewhere: the same learning as in one process, whatever happens to messages."""

import random
from collections import Counter
from contextlib import suppress

import pytest
import torch

from ofcl import make_settings
from ofcl.algorithm import federate
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.engines.remote import RemoteEngine
from ofcl.engines.responder import OldRequest
from ofcl.evaluation.results import summarise
from ofcl.events import Evaluated, Learned, Round, TaskEnded
from ofcl.state import flatten
from tests.conftest import TINY, TINY_IMAGES
from tests.support.remote import InProcessChannel, assert_same, locally, over_the_wire, remotely


def result(events, settings):
    return summarise(events, clients=settings.clients, tasks=settings.tasks, seconds=0.0)


PLAIN = {"model": "convnet", "width": 2}  # a fraction of a ResNet's time


@pytest.mark.parametrize("change", [
    {"method": "er"}, {"method": "bi"}, {"method": "bi", "protocol": "published"},
    {"aggregation": "weighted", **PLAIN}, {"aggregation": "fedprox", **PLAIN},
    {"participation": 0.5, **PLAIN}, {"dropout": 0.4, "clients": 4, **PLAIN},
    {"batchnorm": "local"}, {"blurry": 0.3, **PLAIN}, {"method": "mfcl"}, {"method": "fedcil"},
    {"method": "loss", "keep": "weighted", "label_noise": 0.2, "input_noise": 0.2, **PLAIN},
    {"method": "bi", "keep": "spread", "score_scale": "rank", "replay_draw": "key", **PLAIN},
    {"method": "bi", "keep": "diverse", "replay_draw": "class", **PLAIN}, {"protocol": "strong"},
    {"method": "refed", **PLAIN}, {"method": "fedcbdr", **PLAIN}, {"method": "glfc", **PLAIN},
    {"method": "target", **PLAIN}, {"protocol": "strong", "method": "mfcl"},
    {"closing_round": "end", "distil": 1.0, **PLAIN},
    {"protocol": "strong", "classifier": "nearest-mean", **PLAIN},
    {"closing_round": "end", "classifier": "nearest-mean", "batchnorm": "local", "mixing": 0.5},
    {"compress": "int8", "batchnorm": "local", "participation": 0.5}, {"compress": "topk:0.1"},
    {"compress": "fp16", "dp_clip": 1.0, "mixing": 0.5, **PLAIN},
], ids=str)  # fmt: skip
def test_remote_clients_learn_bit_for_bit_as_local_ones(tmp_path, images, change):
    few = {"synthetic": 8, "generator_steps": 2, "consolidation": 1}
    short = {"clients": 3, "batch_size": 3, "burn_in": 1, "limit": 3, "steps": 1}
    settings = make_settings({**TINY_IMAGES, **few, **short, **change})
    events, server = locally(settings, images)
    elsewhere, remote_server, _ = remotely(tmp_path, settings, images)
    assert_same(server.model, remote_server.model)
    assert_same(server.prototypes, remote_server.prototypes)
    assert bool(server.prototypes) == ("classifier" in change)
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


class Trouble(InProcessChannel):
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
                party = self.responders[client]
                party._save = lambda client: (_ for _ in ()).throw(Killed)
                with suppress(Killed):  # it saves nothing if it has learned this before
                    self.carry(client, request)
                self.start(client)
            case "killed before the answer":
                self.carry(client, request)
                self.start(client)
            case "an old one":
                reply = self.carry(client, request)
                earlier = (r for r in self.earlier.get(client, ()) if r.exchange < request.exchange)
                for old in list(earlier)[-2:]:
                    with pytest.raises(OldRequest):
                        self.carry(client, old)
                return reply
        return self.carry(client, request)


def batches_of(parties):
    return [party._client.learned for party in parties.values()]


@pytest.mark.parametrize(("method", "compress"), [("er", "int8"), ("bi", "none")])
def test_nothing_is_learned_twice_or_skipped_whatever_happens(tmp_path, blobs, method, compress):
    change = {"method": method, "clients": 3, "model": "mlp", "compress": compress}
    settings = make_settings({**TINY, **change})
    events, server = locally(settings, blobs)
    elsewhere, _, post = remotely(tmp_path, settings, blobs, Trouble)
    assert len(post.troubles) == 7
    learned = Counter(event.client for event in events if isinstance(event, Learned))
    assert batches_of(post.responders) == [learned[client] for client in range(3)]
    told = Counter(event.client for event in elsewhere if isinstance(event, Learned))
    assert told == learned  # an answer that was lost is told with the next
    ends = [(e.client, e.task) for e in elsewhere if isinstance(e, Evaluated)]
    assert sorted(ends) == [(client, task) for client in range(3) for task in range(3)]
    assert abs(result(elsewhere, settings).A - result(events, settings).A) < 15


@pytest.mark.parametrize(
    "change", [{}, {"closing_round": "none"}, {"compress": "int8"}], ids=lambda change: str(change)
)
def test_if_rounds_wait_for_all_no_trouble_changes_anything(tmp_path, blobs, change):
    settings = make_settings({**TINY, "method": "bi", "clients": 3, "model": "mlp", **change})
    plain, expected, _ = remotely(tmp_path / "plain", settings, blobs, min_clients=3)
    events, server, post = remotely(tmp_path / "trouble", settings, blobs, Trouble, min_clients=3)
    assert len(post.troubles) == 7
    assert_same(server.model, expected.model)
    for kind in (Round, Learned, Evaluated):
        told, right = ([e for e in both if isinstance(e, kind)] for both in (events, plain))
        assert sorted(told, key=repr) == sorted(right, key=repr)


def test_who_is_away_when_a_task_begins_begins_it_later(tmp_path, blobs):
    class Away(InProcessChannel):
        """Client 2 gets nothing from the first request of the second task on, for two rounds."""

        lost = 0

        def exchange(self, requests):
            begin = any("begin-task" in request.steps for request in requests.values())
            if 2 in requests and (begin or 0 < self.lost) and self.lost < 3:
                self.lost += 1
                requests = {k: r for k, r in requests.items() if k != 2}
            return super().exchange(requests)

    change = {"method": "er", "clients": 3, "q": 1, "burn_in": 0, "closing_round": "task"}
    settings = make_settings({**TINY, **change})
    events, _, post = remotely(tmp_path, settings, blobs, Away, min_clients=2)
    assert post.lost == 3
    ended = [(e.task, e.client) for e in events if isinstance(e, Evaluated)]
    assert ended == sorted(ended)  # all are tested on a task before any is on the next
    assert len(ended) == 9


def test_a_client_that_is_absent_misses_rounds_and_goes_on_from_the_global_model(tmp_path, blobs):
    class Absent(InProcessChannel):
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
    class Late(InProcessChannel):
        asked = 0

        def exchange(self, requests):
            self.asked += 1
            there = {k: r for k, r in requests.items() if k == 0 or self.asked > 3}
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
    post = InProcessChannel(tmp_path / "parties", parties.settings, blobs)

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


def test_a_server_that_is_killed_after_a_lost_answer_asks_for_the_same_again(tmp_path, blobs):
    settings = make_settings({**TINY, "method": "bi", "clients": 3})
    whole, server, _ = remotely(tmp_path / "whole", settings, blobs, min_clients=3)

    class Loses(InProcessChannel):
        """Loses an answer of client 2; the server is killed when it asks for it once more."""

        lost = None

        def exchange(self, requests):
            if self.lost is not None:
                assert requests[2].exchange == self.lost
                raise Killed
            answers = super().exchange(requests)
            if requests[0].exchange == 4:
                del answers[2]
                self.lost = requests[2].exchange
            return answers

    saved, told = {}, []
    parties = dataset_participants(settings, blobs)
    post = Loses(tmp_path / "parties", parties.settings, blobs)

    def begin(parties, post):
        def save():
            state = {"engine": engine.state(), "server": parties.server.state()}
            saved.update(state=over_the_wire(state), events=list(told))

        engine = RemoteEngine(3, post, run="run", min_clients=3, tell=lambda _: None, save=save)
        return engine

    with pytest.raises(Killed):
        for event in federate(begin(parties, post), parties.server):
            told.append(event)
    plain = InProcessChannel(tmp_path / "parties", parties.settings, blobs)
    again = dataset_participants(settings, blobs)
    events = list(saved["events"])
    engine = begin(again, plain)
    engine.load_state(saved["state"]["engine"])
    again.server.load_state(saved["state"]["server"])
    events += federate(engine, again.server)
    assert post.lost == 4
    assert_same(again.server.model, server.model)
    for kind in (Round, Learned, Evaluated):
        found, right = ([e for e in both if isinstance(e, kind)] for both in (events, whole))
        assert sorted(found, key=repr) == sorted(right, key=repr)


NEAREST = {**TINY, "method": "cbr", "clients": 3, "classifier": "nearest-mean",
           "closing_round": "task"}  # fmt: skip


@pytest.mark.parametrize("lost", [{0}, {0, 1, 2}], ids=str)
def test_a_survey_that_is_lost_is_asked_for_again_or_left_out(tmp_path, blobs, lost):
    class Loses(InProcessChannel):
        """Loses the answers of some clients to the first survey."""

        surveys = ()

        def exchange(self, requests):
            answers = super().exchange(requests)
            if any("survey" in request.steps for request in requests.values()):
                self.surveys += (sorted(requests),)
                if len(self.surveys) == 1:
                    return {k: answer for k, answer in answers.items() if k not in lost}
            return answers

    settings = make_settings(NEAREST)
    _, plain, _ = remotely(tmp_path / "plain", settings, blobs)
    events, server, post = remotely(tmp_path / "lost", settings, blobs, Loses, min_clients=2)
    again = [] if lost == {0} else [[0, 1, 2]]  # two of three are enough
    assert list(post.surveys) == [[0, 1, 2], *again, [0, 1, 2], [0, 1, 2]]
    assert sum(isinstance(event, TaskEnded) for event in events) == 3
    assert_same(server.prototypes, plain.prototypes)


@pytest.mark.parametrize("survey", [1, 2])
def test_a_server_that_is_killed_before_a_survey_asks_for_the_same(tmp_path, blobs, survey):
    class Killed(Exception):
        pass

    class Dies(InProcessChannel):
        """The server is killed when its request for a survey has been answered."""

        surveys = 0

        def exchange(self, requests):
            answers = super().exchange(requests)
            self.surveys += any("survey" in request.steps for request in requests.values())
            if self.surveys == survey:
                self.surveys = 99
                raise Killed
            return answers

    settings, saved = make_settings(NEAREST), {}
    _, server, _ = remotely(tmp_path / "whole", settings, blobs)
    parties = dataset_participants(settings, blobs)
    post = Dies(tmp_path / "parties", parties.settings, blobs)

    def engine_of(parties):
        def save():
            saved.update(
                over_the_wire({"engine": engine.state(), "server": parties.server.state()})
            )

        engine = RemoteEngine(3, post, run="run", tell=lambda _: None, save=save)
        return engine

    with pytest.raises(Killed):
        list(federate(engine_of(parties), parties.server))
    again = dataset_participants(settings, blobs)
    engine = engine_of(again)
    engine.load_state(saved["engine"])
    again.server.load_state(saved["server"])
    list(federate(engine, again.server))
    assert_same(again.server.model, server.model)
    assert_same(again.server.prototypes, server.prototypes)


def test_another_run_begins_anew(tmp_path, blobs):
    settings = make_settings({**TINY, "method": "er"})
    parties = dataset_participants(settings, blobs)
    post = InProcessChannel(tmp_path, parties.settings, blobs)
    for run in ("first", "second"):
        server = dataset_participants(settings, blobs).server
        engine = RemoteEngine(2, post, run=run, tell=lambda _: None)
        events = list(federate(engine, server))
        assert sum(isinstance(event, Learned) for event in events) > 20
