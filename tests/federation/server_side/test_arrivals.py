"""Answers one by one: who is asked again, whose answer comes too late, who has failed."""

import pytest

from ofcl.engines.messages import Request
from ofcl.federation.server_side import courier
from ofcl.federation.server_side.courier import Courier
from ofcl.federation.terms import Samples, Terms
from ofcl.federation.transport import Delivery

TERMS = Terms({}, 2, ("a", "b"), 2, Samples("share", "vector", (2,), (), (), None))


class Network:
    """Messages by their places; an answer comes when the test puts it there."""

    def __init__(self):
        self.sent, self.answers, self.processes = [], {}, {0: "first", 1: "first"}

    def connected(self):
        return dict(self.processes)

    def send(self, party, content):
        self.sent.append((party, content["request"]["exchange"]))
        return str(len(self.sent) - 1)

    def fetch(self, messages):
        there = [message for message in messages if message in self.answers]
        return {message: Delivery(self.answers.pop(message)) for message in there}


class Tired(Exception):
    pass


@pytest.fixture
def asked(monkeypatch):
    """A courier whose pauses end the test's patience, and its network."""
    monkeypatch.setattr(courier, "LOOK_WHO", 0.0)
    network, said, pauses = Network(), [], []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) % 5 == 0:
            raise Tired

    made = Courier(network, ["anna", "bert"], terms=lambda: TERMS, deadline=None, pause=pause,
                   tell=said.append)  # fmt: skip
    return made, network, said


def requests(*numbers):
    return {party: Request("run", number, (), {}) for party, number in enumerate(numbers)}


def test_one_answer_is_enough_and_the_other_request_stays_on_its_way(asked):
    made, network, _ = asked
    assert made.arrivals(requests(1, 2), wait=False) == {}
    network.answers["0"] = {"n": 1}
    assert made.arrivals(requests(1, 2), wait=True) == {0: {"n": 1}}
    network.answers["1"] = {"n": 2}
    assert made.arrivals(requests(3, 2), wait=True) == {1: {"n": 2}}
    assert network.sent == [(0, 1), (1, 2), (0, 3)]


def test_a_process_that_is_started_again_is_asked_again_and_answers_count_once(asked):
    made, network, _ = asked
    made.arrivals(requests(1, 2), wait=False)
    network.processes[0] = "second"
    made.arrivals(requests(1, 2), wait=False)
    assert network.sent == [(0, 1), (1, 2), (0, 1)]
    network.answers["2"] = {"n": 1}
    assert made.arrivals(requests(1, 2), wait=True) == {0: {"n": 1}}
    made.arrivals(requests(3, 2), wait=False)
    network.answers["0"] = {"n": 1}  # the first process had answered, too
    assert made.arrivals(requests(3, 2), wait=False) == {}
    network.answers["3"] = {"n": 3}
    assert made.arrivals(requests(3, 2), wait=False) == {0: {"n": 3}}


def test_what_was_answered_and_is_asked_once_more_is_sent_once_more(asked):
    made, network, _ = asked
    made.arrivals(requests(1), wait=False)
    network.answers["0"] = {"status": "asking"}
    made.arrivals(requests(1), wait=True)
    made.arrivals(requests(1), wait=False)
    assert network.sent == [(0, 1), (0, 1)]


def test_who_has_failed_is_asked_again_while_others_work(asked, monkeypatch):
    made, network, said = asked
    made.arrivals(requests(1, 2), wait=False)
    network.answers["0"] = None
    made.arrivals(requests(1, 2), wait=False)
    assert said[-1] == "anna could not answer; its own log says why"
    assert not made.all_failed
    made.arrivals(requests(1, 2), wait=False)
    assert network.sent == [(0, 1), (1, 2)]  # not at once
    monkeypatch.setattr(courier, "AFTER_FAILURE", 0.0)
    made.arrivals(requests(1, 2), wait=False)
    assert network.sent[2:] == [(0, 1)]


def test_it_ends_without_an_answer_when_everybody_has_failed(asked):
    made, network, _ = asked
    made.arrivals(requests(1, 2), wait=False)
    network.answers |= {"0": None, "1": None}
    assert made.arrivals(requests(1, 2), wait=True) == {}
    assert made.all_failed


def test_it_waits_for_those_who_are_away_and_says_so_once(asked):
    made, network, said = asked
    network.processes = {}
    with pytest.raises(Tired):
        made.arrivals(requests(1, 2), wait=True)
    assert said == ["waiting for anna, bert"]
