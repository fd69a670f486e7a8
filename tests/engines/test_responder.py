"""A client that answers requests: nothing is half done, told late or begun twice."""

import contextlib
from collections import Counter

import pytest

from ofcl import make_settings
from ofcl.compute.devices import Lanes
from ofcl.events import Evaluated, Learned
from tests.conftest import TINY, TINY_IMAGES
from tests.support.remote import InProcessChannel, assert_same, locally, remotely


def test_a_failure_in_the_middle_leaves_nothing_half_done(tmp_path, blobs, monkeypatch):
    settings = make_settings({**TINY, "method": "er", "clients": 2, "q": 3, "burn_in": 0})
    expected, server, _ = remotely(tmp_path / "whole", settings, blobs)

    class Failing(InProcessChannel):
        """The first client fails once, after some mini-batches of a stretch."""

        failed = 0

        def exchange(self, requests):
            answers = {}
            for client, request in requests.items():
                if client == 0 and request.exchange == 2 and not self.failed:
                    learner = self.responders[0]._client.learner
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

    class Lossy(InProcessChannel):
        """The first answer after a task has begun does not arrive."""

        lost = False

        def start(self, client):
            super().start(client)
            party, make = self.responders[client], self.responders[client]._make

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
