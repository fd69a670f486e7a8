"""The thread that predicts."""

import threading

import numpy as np
import pytest

from ofcl.bundle.trained_model import Answers
from ofcl.inference.service.batch_worker import BatchWorker
from ofcl.inference.service.replies import Refused


class Model:
    """Answers with the samples themselves, once it is let; notes the size of each batch."""

    def __init__(self):
        self.sizes, self.let = [], threading.Event()

    def __call__(self, samples, measure):
        self.let.wait(10)
        self.sizes.append((len(samples), measure))
        array = np.asarray(samples)
        if (array < 0).any():
            raise ValueError("negative")
        return Answers(array * 10, array[:, 0] if measure else np.empty(0))


def samples(*values):
    return np.array([[value] for value in values])


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def worker(model):
    made = BatchWorker(model, batch=4, queue=9, count=lambda n: None)
    yield made
    model.let.set()
    made.close()


def busy(worker):
    """Lets the thread take one request, so that others wait."""
    first = worker.submit(samples(0), True)
    while worker.waiting:
        pass
    return first


def test_those_that_wait_are_joined_and_everyone_gets_their_own(worker, model):
    first = busy(worker)
    given = [samples(1, 2), samples(3), samples(4, 5)]
    asked = [worker.submit(part, True) for part in given]
    other = worker.submit(samples(6), False)
    model.let.set()
    assert first.result(10).probabilities.tolist() == [[0]]
    for part, answer in zip(given, asked, strict=True):
        assert answer.result(10).probabilities.tolist() == (part * 10).tolist()
        assert answer.result(10).uncertainty.tolist() == part[:, 0].tolist()
    assert other.result(10).uncertainty.tolist() == []
    assert model.sizes == [(1, True), (3, True), (2, True), (1, False)]  # at most 4 are joined


def test_one_that_fails_spoils_no_other(worker, model):
    busy(worker)
    good, bad = worker.submit(samples(1), True), worker.submit(samples(-1), True)
    model.let.set()
    assert good.result(10).probabilities.tolist() == [[10]]
    with pytest.raises(ValueError, match="negative"):
        bad.result(10)
    assert worker.ready


def test_a_full_queue_refuses(worker):
    busy(worker)
    worker.submit(samples(*range(8)), True)
    with pytest.raises(Refused) as refused:
        worker.submit(samples(1, 2), True)
    assert (refused.value.status, refused.value.retry) == (503, 1)
    worker.submit(samples(1), True)
    assert worker.waiting == 9


def test_a_request_that_was_given_up_is_not_predicted(worker, model):
    busy(worker)
    gone, there = worker.submit(samples(1), True), worker.submit(samples(2), True)
    assert gone.cancel()
    model.let.set()
    assert there.result(10).probabilities.tolist() == [[20]]
    assert model.sizes[-1] == (1, True)


def test_closing_answers_what_waits_and_takes_no_more(worker, model):
    busy(worker)
    last = worker.submit(samples(7), True)
    model.let.set()
    worker.close()
    assert last.result(0).probabilities.tolist() == [[70]]
    assert not worker.ready
    with pytest.raises(Refused, match="about to end"):
        worker.submit(samples(1), True)
