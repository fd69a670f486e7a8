"""EWC: importance, its mean over clients, and the penalty."""

import pytest
import torch
from torch import nn

import ofcl
from ofcl.methods.field.ewc import ElasticWeights, Importance
from ofcl.methods.losses import members
from ofcl.testing import TINY, make_blobs


class Two(nn.Module):
    """A model of two weights, in a head for one class and then more."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(1, 1)
        with torch.no_grad():
            self.head.weight.fill_(1.0)
            self.head.bias.fill_(2.0)
        self.add_module("companion", Importance(self))


def elastic_of(model, moment="task", weight=10.0, steepest=100.0):
    return ElasticWeights(model, weight, steepest, moment)


def learn(elastic, *gradients):
    """Learns a mini-batch with these gradients in its first step; returns the adjusted ones."""
    elastic.before_steps(1, members([0], 1))
    values = [torch.full((1, 1), gradients[0]), torch.full((1,), gradients[1])]
    return [g.item() for g in elastic.adjust(values, True)]


def test_by_hand():
    model = Two()
    elastic = elastic_of(model)
    assert learn(elastic, 1.0, 0.0) == [1.0, 0.0]  # nothing is important yet
    learn(elastic, 3.0, 2.0)
    f = [buffer.item() for buffer in model.companion.buffers()]
    assert f == pytest.approx([(1 + 9) / 2, (0 + 4) / 2])
    elastic.after_round({})
    elastic.end_task()
    with torch.no_grad():
        model.head.weight.fill_(1.5)
        model.head.bias.fill_(0.0)
    # λ Ω (w − w*) = 10 · 5 · 0.5 and 10 · 2 · (−2)
    assert learn(elastic, 1.0, 1.0) == pytest.approx([1 + 25, 1 - 40])
    assert [b.item() for b in model.companion.buffers()] == [1.0, 1.0]  # measured anew


def test_the_penalty_is_never_steeper_than_a_step_can_go():
    model = Two()
    elastic = elastic_of(model, weight=1e6, steepest=4.0)
    learn(elastic, 1.0, 1.0)
    elastic.end_task()
    elastic.before_steps(1, members([0], 1))
    with torch.no_grad():
        model.head.weight.fill_(2.0)
    assert elastic.adjust([torch.zeros(1, 1), torch.zeros(1)], False)[0].item() == 4.0


def test_after_every_round():
    model = Two()
    elastic = elastic_of(model, "round")
    learn(elastic, 1.0, 0.0)
    elastic.after_round({})
    with torch.no_grad():
        model.head.weight.fill_(3.0)
    assert learn(elastic, 0.0, 0.0)[0] == pytest.approx(10 * 1 * 2)


def test_importance_is_averaged_over_clients():
    run = ofcl.Run(
        ofcl.make_settings({**TINY, "method": "ewc", "q": 1, "burn_in": 0}), make_blobs()
    )
    sent = []
    for event in run:
        if type(event).__name__ == "Learned" and len(sent) < 2:
            client = run.clients[event.client]
            sent.append(client.update().state["companion.head_bias"])
        if type(event).__name__ == "Round":
            break
    mean = (sent[0] + sent[1]) / 2
    assert mean.any()
    assert torch.allclose(run.clients[0].model.companion.head_bias, mean)
    assert torch.allclose(run.clients[1].model.companion.head_bias, mean)
