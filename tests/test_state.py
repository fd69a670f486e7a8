import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ofcl.state import copied, flatten, load_optimizer_state, nbytes, optimizer_state, unflatten

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=5)
trees = st.dictionaries(
    names,
    st.recursive(plain, lambda t: st.lists(t, max_size=3) | st.dictionaries(names, t, max_size=3)),
    max_size=4,
)


@given(trees)
def test_plain_values_come_back(tree):
    tensors, flat = flatten(tree)
    assert tensors == {}
    assert unflatten(tensors, flat) == tree


def test_tensors_come_back_by_their_paths():
    state = {"a": [torch.arange(3), {"b": torch.ones(2, 2)}], "c": 1}
    tensors, tree = flatten(state)
    back = unflatten(tensors, tree)
    assert torch.equal(back["a"][0], state["a"][0])
    assert torch.equal(back["a"][1]["b"], state["a"][1]["b"])
    assert back["c"] == 1


def test_a_flat_state_within_another_is_named_by_its_place_and_not_copied():
    answer = {"update": {"w": torch.ones(2)}, "events": [{"n": 1}], "empty": {}, "name": "ü"}
    whole = {"client": {"w": torch.zeros(3)}, "reply": answer, "numbers": [1, 2]}
    flat = flatten(answer)
    assert flatten(flat) is flat
    tensors, tree = flatten({**whole, "reply": flat})
    expected = flatten(whole)
    assert list(tensors) == list(expected.tensors)
    assert tree == expected.tree
    assert tensors["reply.update.w"] is flat.tensors["update.w"]


def test_what_is_neither_tensor_nor_plain_is_refused():
    with pytest.raises(TypeError, match=r"state at 'a\.b' is a set"):
        flatten({"a": {"b": {1, 2}}})
    with pytest.raises(TypeError, match="keys that are not strings"):
        flatten({"a": {1: 2}})


def test_an_optimizers_state_goes_into_another():
    weights = [torch.ones(3, requires_grad=True) for _ in range(2)]
    first, second = (torch.optim.Adam([w], lr=0.1) for w in weights)
    for _ in range(3):
        weights[0].grad = torch.ones(3)
        first.step()
    tensors, tree = flatten(optimizer_state(first))
    load_optimizer_state(second, unflatten(tensors, tree))
    with torch.no_grad():
        weights[1].copy_(weights[0])
    for optimizer, weight in ((first, weights[0]), (second, weights[1])):
        weight.grad = torch.ones(3)
        optimizer.step()
    assert torch.equal(*weights)


def test_copies_are_the_same_to_the_bit_and_of_their_own():
    odd = torch.tensor([-0.0, 1e-45, float("inf"), float("nan"), 0.1])
    images = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    model = {"odd": odd, "images": images}
    copies = copied(model)
    assert torch.equal(copies["odd"].view(torch.int32), odd.view(torch.int32))
    assert copies["images"].stride() == images.stride()
    images.zero_()
    assert copies["images"].any()


def test_nbytes():
    assert nbytes({"a": torch.zeros(3), "b": torch.zeros(2, dtype=torch.long)}) == 12 + 16
