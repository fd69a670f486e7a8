"""What leaves a client of a model: heads of different width, updates that are kept back."""

import pytest
import torch

from ofcl.communication.sender import Sender
from ofcl.communication.sharing import Sharing
from ofcl.compression.codecs import find_codec
from ofcl.privacy import Privacy


def model(outputs, value):
    return {
        "body": torch.full((2, 2), value),
        "head.weight": torch.full((outputs, 2), value),
        "head.bias": torch.full((outputs,), value),
    }


def test_a_global_model_with_more_outputs_than_the_clients_is_measured_from():
    """A client that was not drawn may know of fewer classes than the server."""
    sender = Sender(Sharing(codec=find_codec("int8"), summed=True), number=0, seed=0)
    reach = sender.reach_of_sum(model(3, 1.5), model(6, 1.0))
    assert reach["body"] == pytest.approx(0.5)
    assert reach["head.weight"] >= 0.5


def test_a_kept_back_update_may_have_more_outputs_than_the_clients_model():
    sender = Sender(Sharing(privacy=Privacy(clip=1.0, noise=0.0)), number=0, seed=0)
    sender.measure_from(model(3, 1.0), model(3, 1.0))
    sender.fewest_new = 2
    sender.learned(1)
    sent = sender.send(model(3, 2.0), 3, instead=model(6, 1.0))
    assert sent.kept_back
    assert sender.withheld == 1
    assert sent.state["head.weight"].shape == (6, 2)
    sender.learned(1)
    assert not sender.send(model(3, 2.0), 3, instead=model(6, 1.0)).kept_back


def test_noise_is_as_long_as_each_tensors_change_says_and_leaves_statistics_alone():
    draws = torch.Generator().manual_seed(0)
    sender = Sender(Sharing(), number=0, seed=0)
    sender.noise = 3.0
    sender.draw_noise_by(lambda shape: torch.randn(shape, generator=draws))
    known = {"a": torch.zeros(100, 100), "b": torch.zeros(100, 100), "c": torch.ones(5),
             "norm.running_var": torch.ones(5)}  # fmt: skip
    own = {"a": torch.full((100, 100), 0.1), "b": torch.full((100, 100), 10.0), "c": torch.ones(5),
           "norm.running_var": torch.full((5,), 2.0)}  # fmt: skip
    sent = sender.send(own, 1, instead=known).state
    assert float((sent["a"] - own["a"]).std()) == pytest.approx(0.3, rel=0.05)
    assert float((sent["b"] - own["b"]).std()) == pytest.approx(30.0, rel=0.05)
    assert torch.equal(sent["c"], own["c"])  # it has not changed: noise would say no more
    assert torch.equal(sent["norm.running_var"], own["norm.running_var"])
    assert torch.equal(own["a"], torch.full((100, 100), 0.1))  # the client's own model has none
    assert torch.equal(sender.send(own, 1).state["a"], own["a"])  # a secure sum
    private = Sender(Sharing(privacy=Privacy(clip=1e9, noise=1e-20)), number=0, seed=0)
    private.noise = 3.0
    private.measure_from(known, known)
    assert torch.allclose(private.send(own, 1, instead=known).state["a"], own["a"])
