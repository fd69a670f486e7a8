"""Models as coded differences: what is lost comes later, bases must agree, heads may grow."""

import pytest
import torch

from ofcl.compression.codecs import Half, Integers, TopK
from ofcl.compression.differences import BASE, Differences, OtherBase, decoded
from ofcl.compression.steps import Steps
from ofcl.models.head import grown


def model(seed, classes=3):
    draw = torch.Generator().manual_seed(seed)
    return {
        "w": torch.randn(4, 5, generator=draw),
        "bn.running_var": torch.rand(5, generator=draw) + 0.1,
        "head.weight": torch.randn(classes, 5, generator=draw),
        "head.bias": torch.randn(classes, generator=draw),
    }


INT8 = Integers(8)
CODECS = [Half(), INT8, Integers(4), TopK(0.3)]


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_the_receiver_gets_the_very_model_that_the_sender_goes_by(codec):
    base, new = model(0), model(1)
    coded = Differences(codec, seed=7).code(new, base)
    received = decoded(coded.tensors, base, codec, seed=7)
    assert received.keys() == coded.model.keys() == new.keys()
    for name, value in received.items():
        assert torch.equal(value, coded.model[name])
    assert torch.equal(received["bn.running_var"], new["bn.running_var"])  # exact


def test_what_is_lost_comes_with_the_next_differences():
    """Every model is one farther than the last; with half of the numbers lost, sums still agree."""
    differences, base = Differences(TopK(0.5), seed=7), {"head.weight": torch.zeros(1, 4)}
    base["head.bias"] = torch.zeros(1)
    step = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    sent = []
    for _ in range(4):
        wanted = {"head.weight": base["head.weight"] + step, "head.bias": base["head.bias"]}
        new = differences.code(wanted, base).model
        differences.settle()
        sent.append((new["head.weight"] - base["head.weight"]).tolist()[0])
        base = new
    # three of five numbers each time: 4 3 2 _, then 1 has become 2 and so on
    assert sent == [[4, 3, 2, 0], [4, 3, 2, 0], [4, 3, 0, 3], [4, 3, 4, 0]]
    assert (4 * step - base["head.weight"]).tolist() == [[0, 0, 0, 1]]  # what is still lost


def test_nothing_is_lost_by_a_sender_that_goes_on_with_its_own_model():
    differences, base, new = Differences(INT8, seed=7), model(0), model(1)
    first = differences.code(new, base).model
    again = differences.code(new, base).model  # nobody took the first one
    assert all(torch.equal(again[name], first[name]) for name in first)
    differences.settle()
    assert not torch.equal(differences.code(new, base).model["w"], first["w"])


def test_a_head_that_has_grown_is_coded_from_outputs_that_both_sides_draw():
    base, new = model(0), grown(model(1), 5, 7)
    differences = Differences(INT8, seed=7)
    differences.code(model(2), base)
    differences.settle()  # something is lost before the head grows
    coded = differences.code(new, base)
    received = decoded(coded.tensors, base, INT8, seed=7)
    assert received["head.weight"].shape == (5, 5)
    assert torch.equal(received["head.weight"], coded.model["head.weight"])


def test_another_base_is_noticed():
    coded = Differences(INT8, seed=7).code(model(1), model(0))
    with pytest.raises(OtherBase):
        decoded(coded.tensors, model(2), INT8, seed=7)


@pytest.mark.parametrize("about", [
    torch.zeros(2), torch.tensor([1]), torch.tensor([0, 10**9]), torch.tensor([0, 1]),
])  # fmt: skip
def test_a_head_that_cannot_be_is_refused_before_it_is_made(about):
    coded = Differences(INT8, seed=7).code(model(1), model(0))
    with pytest.raises((ValueError, OtherBase)):
        decoded({**coded.tensors, BASE: about}, model(0), INT8, seed=7)


def test_a_step_is_for_those_who_have_the_model_before():
    steps, old = Steps(INT8, seed=7), model(0)
    new = steps.taken(model(1), old)
    assert steps.form(dict(old), new) == "step"
    assert steps.form(dict(new), new) == "same"
    assert steps.form({}, new) == steps.form(model(0), new) == "whole"
    received = decoded(steps.tensors, old, INT8, seed=7)
    assert all(torch.equal(received[name], new[name]) for name in new)
    gone_back = {**new, "w": old["w"]}
    assert steps.form(dict(old), gone_back) == "whole"
