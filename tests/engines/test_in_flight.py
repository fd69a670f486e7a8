"""Clients elsewhere in rounds that nobody waits for: as on one machine, whatever happens."""

import random
from collections import Counter

import pytest

from ofcl import OfclError, make_settings
from ofcl.assembly.dataset_clients import dataset_participants
from ofcl.assembly.make_server import build_coded_models
from ofcl.buffered import arrivals_of, federate_buffered
from ofcl.engines.local import LocalEngine
from ofcl.engines.quarantine import Quarantine
from ofcl.engines.rejection import Rejected
from ofcl.engines.remote import RemoteEngine
from ofcl.engines.responder import OldRequest
from ofcl.events import Arrived, Learned, Round
from tests.conftest import TINY, TINY_IMAGES
from tests.support.remote import InProcessChannel, assert_same, over_the_wire

BUFFERED = {**TINY, "method": "er", "clients": 3, "model": "mlp", "rounds": "buffered", "buffer": 2}
SPEEDS = [1.0, 3.0, 7.0]


class AtSpeeds(InProcessChannel):
    """Brings the answer of the client that has taken the least time, at its speed."""

    speeds = SPEEDS

    def arrivals(self, requests, *, wait):
        self.asked = getattr(self, "asked", [])
        self.asked.append({client: request.exchange for client, request in requests.items()})
        answers = {}
        for client, request in requests.items():
            if (answer := self.deliver(client, request)) is not None:
                answers[client] = answer
        if not wait or not answers:
            return {}
        first = min(answers, key=lambda k: (answers[k]["learned"] * self.speeds[k], k))
        return {first: answers[first]}

    def deliver(self, client, request):
        return self.carry(client, request)


def engine_of(parties, post, **how):
    server = parties.server
    how.setdefault("coded", build_coded_models(parties.settings, server))
    how.setdefault("tell", lambda _: None)
    handed = server.handing()
    return RemoteEngine(parties.settings.clients, post, run="run", handed=handed, **how)


def remotely(folder, settings, data, channel=AtSpeeds, **how):
    parties = dataset_participants(settings, data)
    post = channel(folder, parties.settings, data)
    engine = engine_of(parties, post, **how)
    return (
        list(federate_buffered(engine, parties.server, parties.server.late)),
        parties.server,
        post,
    )


def locally(settings, data, **how):
    parties = dataset_participants(settings, data)
    engine = LocalEngine(parties.clients, apart=True, **how)
    return list(federate_buffered(engine, parties.server, parties.server.late)), parties.server


def rounds_of(events):
    return [event for event in events if isinstance(event, Round | Arrived)]


def batches_of(events):
    counts = Counter()
    for event in events:
        if isinstance(event, Learned):
            counts[event.client] += event.batches
    return counts


@pytest.mark.parametrize("change", [
    {}, {"compress": "int8", "buffer": 1}, {"compress": "topk:0.1"}, {"closing_round": "end"},
    {"method": "mfcl"}, {"aggregation": "weighted", "batchnorm": "local"},
], ids=str)  # fmt: skip
def test_remote_clients_learn_bit_for_bit_as_local_ones(tmp_path, images, change):
    few = {"synthetic": 8, "generator_steps": 2, "consolidation": 1, "model": "convnet", "width": 2}
    short = {"clients": 3, "batch_size": 3, "burn_in": 1, "limit": 4, "steps": 1, "method": "er"}
    asynchronous = {"rounds": "buffered", "buffer": 2}
    settings = make_settings({**TINY_IMAGES, **few, **short, **asynchronous, **change})
    events, server, _ = remotely(tmp_path, settings, images)
    again, local = locally(settings, images, speeds=SPEEDS)
    assert rounds_of(events) == rounds_of(again)
    assert_same(server.model, local.model)
    assert batches_of(events) == batches_of(again)


# What may happen to messages and processes


class Killed(Exception):
    pass


class Trouble(AtSpeeds):
    """Loses requests and answers, repeats requests, and kills parties before or after they save."""

    def __init__(self, folder, settings, data):
        super().__init__(folder, settings, data)
        self.draw, self.troubles, self.earlier = random.Random(0), Counter(), {}

    def deliver(self, client, request):
        trouble = self.draw.choice(["", "lost", "answer lost", "killed", "killed after", "old"])
        self.troubles[trouble] += 1
        if trouble == "lost":
            return None
        if trouble == "killed":
            self.responders[client]._save = lambda client: (_ for _ in ()).throw(Killed)
            if not self.answered(client, request):
                with pytest.raises(Killed):
                    self.carry(client, request)
            self.start(client)
        answer = self.carry(client, request)
        if trouble == "killed after":
            self.start(client)
        if trouble == "old" and (old := self.earlier.get(client)) and old != request:
            with pytest.raises(OldRequest):
                self.carry(client, old)
        self.earlier[client] = request
        return None if trouble == "answer lost" else answer

    def answered(self, client, request):
        return self.responders[client]._answered() == request.exchange


@pytest.mark.parametrize("compress", ["none", "int8"])
def test_nothing_is_learned_twice_or_skipped_whatever_happens(tmp_path, blobs, compress):
    settings = make_settings({**BUFFERED, "compress": compress})
    events, server, post = remotely(tmp_path, settings, blobs, Trouble)
    assert len(post.troubles) == 6
    replayed, local = locally(settings, blobs, arrivals=arrivals_of(events))
    assert batches_of(events) == batches_of(replayed)
    assert rounds_of(events) == rounds_of(replayed)
    assert_same(server.model, local.model)


@pytest.mark.parametrize("compress", ["none", "topk:0.1"])
def test_a_server_that_is_killed_at_any_step_asks_the_same_again(tmp_path, blobs, compress):
    settings = make_settings({**BUFFERED, "compress": compress, "closing_round": "end"})
    whole, server, _ = remotely(tmp_path / "whole", settings, blobs)

    draw = random.Random(1)

    class Dies(AtSpeeds):
        """The server dies now and then, before or after parties have got requests."""

        def arrivals(self, requests, *, wait):
            if draw.random() < 0.2:
                raise Killed
            answers = super().arrivals(requests, wait=wait)
            if draw.random() < 0.2:
                raise Killed
            return answers

    saved, told, kills = {}, [], 0
    first = dataset_participants(settings, blobs)
    post = Dies(tmp_path / "parties", first.settings, blobs)

    def begin(parties, told):
        def save():
            state = {"engine": engine.state(), "server": parties.server.state()}
            saved.update(state=over_the_wire(state), events=list(told))

        engine = engine_of(parties, post, save=save)
        return engine

    while True:
        parties, told = dataset_participants(settings, blobs), list(saved.get("events", []))
        engine = begin(parties, told)
        if saved:
            engine.load_state(saved["state"]["engine"])
            parties.server.load_state(saved["state"]["server"])
        try:
            for event in federate_buffered(engine, parties.server, parties.server.late):
                told.append(event)
            break
        except Killed:
            kills += 1
    assert kills > 5
    assert told == whole
    assert_same(parties.server.model, server.model)


def test_a_frozen_client_holds_up_nobody_and_its_late_update_counts_by_its_age(tmp_path, blobs):
    class Frozen(AtSpeeds):
        """Client 2 gets its second request, and its answer comes when nobody else learns."""

        speeds = (1.0, 1.0, 1.0)

        def deliver(self, client, request):
            if client == 2 and request.exchange > 3 and len(self.asked[-1]) > 1:
                return None
            return self.carry(client, request)

    settings = make_settings({**BUFFERED, "buffer": 1, "closing_round": "none"})
    events, server, post = remotely(tmp_path, settings, blobs, Frozen)
    order = arrivals_of(events)
    stretch = order[order.index(2) + 1 :]
    assert stretch[: stretch.index(2)].count(0) >= 3
    assert len({asked[2] for asked in post.asked if {0, 1, 2} <= asked.keys()}) == 2  # it waits
    ages = [age for e in events if isinstance(e, Round)
            for k, age in zip(e.clients, e.ages, strict=True) if k == 2]  # fmt: skip
    assert max(ages) >= 6
    assert len(set(batches_of(events).values())) == 1
    _, local = locally(settings, blobs, arrivals=order)
    assert_same(server.model, local.model)


class Refusing:
    """A gate that rejects some of a client's answers."""

    def __init__(self, bad):
        self.bad, self.seen = bad, Counter()

    def passed(self, answer, request, client):
        from ofcl.engines.messages import unpack_reply

        self.seen[client] += 1
        if client == 1 and self.bad(self.seen[client]):
            raise Rejected("it is wrong")
        return unpack_reply(answer)


def test_after_a_rejected_answer_a_client_goes_on_from_the_newest_model(tmp_path, blobs):
    settings = make_settings({**BUFFERED, "compress": "int8"})
    gate = Refusing(lambda number: number == 3)
    events, server, post = remotely(tmp_path, settings, blobs, gate=gate)
    assert len(set(batches_of(events).values())) == 1
    order = arrivals_of(events)
    assert order.count(1) == order.count(0) - 1
    taken = server.late.state()["taken"]
    assert {client: number for client, number, _ in taken}[1] > 0


def test_a_client_in_quarantine_is_asked_no_more_and_readmitted_later(tmp_path, blobs):
    settings, said, states = make_settings(BUFFERED), [], []
    parties = dataset_participants(settings, blobs)
    post = AtSpeeds(tmp_path, parties.settings, blobs)
    gate = Refusing(lambda number: number > 2)
    engine = engine_of(parties, post, gate=gate, quarantine=Quarantine(), tell=said.append)
    for event in federate_buffered(engine, parties.server, parties.server.late):
        if any("quarantine" in line for line in said) and isinstance(event, Round) and not states:
            states = [over_the_wire(engine.state()), over_the_wire(parties.server.state())]
    assert 1 not in post.asked[-1]
    assert engine.next_arrival() is None
    again = dataset_participants(settings, blobs)
    engine = engine_of(again, post, quarantine=Quarantine(), readmitted=[1],
                       gate=Refusing(lambda number: False))  # fmt: skip
    engine.load_state(states[0])
    again.server.load_state(states[1])
    next(federate_buffered(engine, again.server, again.server.late))
    assert 1 in post.asked[-1]


def test_a_model_that_is_gone_back_from_is_recalled_from_all_clients(tmp_path, blobs):
    settings = make_settings(BUFFERED)
    parties = dataset_participants(settings, blobs)
    post = AtSpeeds(tmp_path, parties.settings, blobs)
    server, calls = parties.server, []

    def watch(losses):
        calls.append(losses)
        if len(calls) == 6:
            server.model.update({name: value.clone() for name, value in server.model.items()})

    engine = engine_of(parties, post, watch=watch)
    list(federate_buffered(engine, server, server.late))
    before, after = post.asked[5], post.asked[6]
    assert max(before.values()) < min(after.values())  # everybody was sent another request
    assert len(calls[4]) > 1  # the newest loss of each


def test_a_channel_that_waits_for_everybody_is_refused(tmp_path, blobs):
    parties = dataset_participants(make_settings(BUFFERED), blobs)
    post = InProcessChannel(tmp_path, parties.settings, blobs)
    with pytest.raises(OfclError, match="waits for no client"):
        engine_of(parties, post)
