"""The contract of an aggregation, with functions that break it."""

import pytest
import torch

from ofcl.aggregation import fedavg
from ofcl.testing import ContractBroken, check_aggregation


def drifts(updates, previous):
    return {name: value + 0.01 for name, value in fedavg(updates).items()}


def by_place(updates, previous):
    models = [update.state for update in updates]
    weights = [2.0**-k for k in range(len(models))]
    return {
        name: sum(w * m[name] for w, m in zip(weights, models, strict=True)) / sum(weights)
        for name in models[0]
    }


def forgetful(updates, previous):
    model = fedavg(updates)
    del model["head.bias"]
    return model


def in_double(updates, previous):
    return {name: value.double() for name, value in fedavg(updates).items()}


def flattens(updates, previous):
    return {name: value.flatten() for name, value in fedavg(updates).items()}


def counts_on_classes(updates, previous):
    weights = [len(update.classes) for update in updates]
    models = [update.state for update in updates]
    return {
        name: sum(w * m[name] for w, m in zip(weights, models, strict=True)) / sum(weights)
        for name in models[0]
    }


def in_place(updates, previous):
    updates[0].state["head.bias"].mul_(0.5)
    return fedavg(updates)


def noisy(updates, previous):
    torch.rand(1)
    return fedavg(updates)


BROKEN_AGGREGATIONS = {
    "clients that agree keep their model": drifts,
    "the order of the clients does not matter": by_place,
    "the model has the tensors of the updates": forgetful,
    "keep shape and type: 'hidden.weight'.* torch.float64": in_double,
    "keep shape and type: 'hidden.weight'.*came as .12,": flattens,
    "the model of finite updates is finite": counts_on_classes,
    "must not change the updates": in_place,
    "generator of torch": noisy,
}


@pytest.mark.parametrize("message", BROKEN_AGGREGATIONS)
def test_a_broken_aggregation_is_caught(message):
    with pytest.raises(ContractBroken, match=message):
        check_aggregation(BROKEN_AGGREGATIONS[message])
