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
