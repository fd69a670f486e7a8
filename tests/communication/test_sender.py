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


def noisy(noise=3.0, seed=0, **sharing):
    """A sender with a limit, whose noise is drawn from a seed."""
    draws = torch.Generator().manual_seed(seed)
    sender = Sender(Sharing(**sharing), number=0, seed=0)
    sender.protect(noise, 0, lambda shape: torch.randn(shape, generator=draws))
    return sender


def flat(value, **more):
    return {"a": torch.full((100, 100), value), **more}


def test_noise_is_as_long_as_each_tensors_change_says_and_leaves_statistics_alone():
    sender, ones = noisy(), torch.ones(5)
    sender.measure_from(flat(0.0, b=torch.zeros(50, 50), c=ones, **{"n.running_var": ones}), "abc")
    sender._start["n.running_var"] = ones
    own = flat(0.1, b=torch.full((50, 50), 10.0), c=ones, **{"n.running_var": 2 * ones})
    sender.learned(16)
    sent = sender.send(own, 1).state
    assert float((sent["a"] - own["a"]).std()) == pytest.approx(0.3, rel=0.05)
    assert float((sent["b"] - own["b"]).std()) == pytest.approx(30.0, rel=0.05)
    assert torch.equal(sent["c"], ones)  # it has not changed: noise would say no more
    assert torch.equal(sent["n.running_var"], 2 * ones)
    assert torch.equal(own["a"], flat(0.1)["a"])  # the client's own model has none


@pytest.mark.parametrize("change", [1e-25, 1e-3])
def test_noise_is_as_long_as_changes_that_are_tiny(change):
    """The square of a small change is 0 in single precision."""
    sender = noisy()
    sender.measure_from(flat(0.0), "a")
    sender.learned(16)
    noise = sender.send(flat(change), 1).state["a"].double() - change
    assert float(noise.std()) == pytest.approx(3 * change, rel=0.05)


def test_without_new_samples_the_same_noisy_update_leaves_again():
    """Many draws on one model would have a mean without noise."""
    sender = noisy()
    sender.measure_from(flat(0.0), "a")
    sender.learned(16)
    first = sender.send(flat(0.1), 1, instead=flat(0.0)).state["a"]
    moved = flat(float(first.mean()))  # a server that measures from elsewhere
    assert torch.equal(sender.send(flat(0.1), 1, instead=moved).state["a"], first)
    assert torch.equal(sender.shown(flat(0.1))["a"], first)
    again = noisy(seed=1)
    again.load_state({**sender.state(), "classes": []}, torch.device("cpu"))
    assert torch.equal(again.send(flat(0.1), 1).state["a"], first)
    again.learned(1)
    assert not torch.equal(again.send(flat(0.1), 1).state["a"], first)


def test_a_model_taken_in_part_gives_no_second_draw_and_a_whole_one_has_nothing_to_hide():
    for mixing in (0.5, 1.0):
        sender = noisy(mixing=mixing)
        sender.measure_from(flat(0.0), "a")
        sender.learned(16)
        first = sender.send(flat(0.1), 1).state["a"]
        own = flat(0.2 + (1 - mixing))
        sender.measure_from(flat(0.2), "a")
        sent = sender.send(own, 1).state["a"]
        assert torch.equal(sent, first if mixing < 1 else own["a"])


@pytest.mark.parametrize("noise", [0.0, 1e-30])
def test_privacy_with_next_to_no_noise_does_not_switch_the_limit_off(noise):
    sender = noisy(privacy=Privacy(clip=10.0, noise=noise))
    sender.measure_from(flat(0.0), "a")
    sender.learned(16)
    sent = sender.send(flat(0.1), 1).state["a"] - 0.1  # a change of length 10
    assert float(sent.std()) == pytest.approx(0.3, rel=0.05)


def test_noise_of_privacy_that_is_longer_is_enough():
    sender = noisy(privacy=Privacy(clip=10.0, noise=0.5))
    sender.measure_from(flat(0.0), "a")
    sender.learned(16)
    assert float((sender.send(flat(0.1), 1).state["a"] - 0.1).std()) == pytest.approx(5.0, rel=0.05)


def test_heads_may_have_grown_and_what_a_method_adds_has_noise_too():
    sender, name = noisy(), "companion.importance.a"
    sender.measure_from({**model(3, 1.0), name: torch.zeros(1000)}, [*model(3, 1.0), name])
    sender.learned(16)
    own = {**model(6, 2.0), name: torch.full((1000,), 0.1)}
    sent = sender.send(own, 6, instead={**model(8, 1.0), name: torch.zeros(1000)}).state
    assert sent["head.weight"].shape == (6, 2)
    assert float((sent[name] - 0.1).std()) == pytest.approx(0.3, rel=0.1)


def test_a_sum_has_noise_too():
    sender = noisy()
    sender.measure_from(flat(0.0), "a")
    sender.learned(16)
    assert float((sender.send(flat(0.1), 1, instead=None).state["a"] - 0.1).std()) > 0.2


def test_a_checkpoint_without_a_model_to_measure_from_takes_the_servers():
    sender = noisy()
    sender.load_state({**sender.state(), "start": {}, "classes": []}, torch.device("cpu"))
    sender.learned(16)
    sent = sender.send(model(3, 2.0), 3, instead=model(8, 1.0)).state
    assert sent["head.weight"].shape == (3, 2)
    assert not torch.equal(sent["body"], model(3, 2.0)["body"])
