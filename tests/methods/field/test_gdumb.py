"""GDumb: it learns from the memory alone, from the initial weights, when it is tested."""

import pytest
import torch

import ofcl
from ofcl.testing import TINY, make_blobs

FEW = {**TINY, "method": "gdumb", "fitting_epochs": 30, "memory": 24, "lr": 0.01}


def run_of(**changed):
    return ofcl.Run(ofcl.make_settings({**FEW, **changed}), make_blobs())


def test_the_stream_changes_the_memory_alone():
    client = run_of().clients[0]
    before = {name: value.clone() for name, value in client.model.state_dict().items()}
    client.learn()
    assert all(torch.equal(v, before[name]) for name, v in client.model.state_dict().items())
    assert len(client.learner.memory) == 5


def test_it_starts_again_from_the_initial_weights():
    client = run_of().clients[0]
    learner = client.learner
    client.learn()
    generators = learner.state()
    learner.before_test()
    first = {name: value.clone() for name, value in client.model.state_dict().items()}
    learner.load_state(generators)  # the same memory and draws, but other weights
    learner.before_test()
    assert all(torch.equal(v, first[name]) for name, v in client.model.state_dict().items())


def test_the_order_of_tasks_does_not_matter():
    def accuracy(order):
        data = make_blobs()
        places = torch.tensor(order)
        x, y = data.x_train, places[data.y_train]
        test = places[data.y_test]
        changed = ofcl.Dataset("blobs", "vector", x, y, data.x_test, test, data.labels)
        return ofcl.run(changed, **FEW).A

    orders = [[0, 1, 2, 3, 4, 5], [5, 3, 1, 4, 2, 0]]
    first, second = map(accuracy, orders)
    assert first > 90
    assert first == pytest.approx(second, abs=6)
