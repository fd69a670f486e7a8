from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st

from ofcl import Memory, Policy
from ofcl.memory.policy import random_key
from ofcl.seeds import generator

policies = {
    "reservoir": lambda: Policy(random_key(generator(0, "key")), balanced=False),
    "random": lambda: Policy(random_key(generator(0, "key"))),
    "random anew": lambda: Policy(random_key(generator(0, "key")), rekey="every-batch"),
    "first feature": lambda: Policy(lambda x: x[:, 0], rekey="every-round"),
}


def feed(memory, batches):
    """Batches of labels; a sample's x is its place in the stream, and the task is class // 2."""
    place, stream = 0, []
    for labels in batches:
        y = torch.tensor(labels)
        x = torch.arange(place, place + len(y)).float().unsqueeze(1)
        memory.update(x, y, task=labels[0] // 2, current=set(labels))
        place += len(y)
        stream += labels
    return stream


streams = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=25)


@given(streams, st.integers(6, 20), st.sampled_from(sorted(policies)),
       st.sampled_from(["even", "released"]))  # fmt: skip
def test_never_too_many_never_twice_never_what_did_not_come(batches, size, policy, rule):
    memory = Memory(size, policies[policy](), generator(0, "draw"), rule)
    stream = feed(memory, batches)
    ids = memory.samples.id.tolist()
    assert len(memory) <= size
    assert len(set(ids)) == len(ids)
    assert memory.x[:, 0].tolist() == ids  # every x is the one that came under that number
    assert [stream[i] for i in ids] == memory.samples.y.tolist()


@given(streams, st.integers(6, 20), st.sampled_from(["random", "random anew", "first feature"]))
def test_classes_are_as_even_as_the_stream_allows(batches, size, policy):
    memory = Memory(size, policies[policy](), generator(0, "draw"))
    stream = Counter(feed(memory, batches))
    kept = Counter(memory.samples.y.tolist())
    assert len(memory) == min(size, stream.total())
    assert kept.keys() == stream.keys()  # the memory is large enough for all classes
    most = max(kept.values())
    for c, n in kept.items():
        # A class has less than the others only if a larger share came too late for it.
        assert n >= min(stream[c], size // len(stream)) or n >= most - 1


def test_the_reservoir_is_uniform():
    stream, size, runs = 40, 10, 1000
    kept = torch.zeros(stream)
    draws = generator(7, "uniform")
    for _ in range(runs):
        memory = Memory(size, Policy(random_key(draws), balanced=False), draws)
        for start in range(0, stream, 8):
            x = torch.arange(start, start + 8).float().unsqueeze(1)
            memory.update(x, torch.zeros(8, dtype=torch.long), task=0)
        kept[memory.samples.id] += 1
    expected = runs * size / stream
    chi2 = ((kept - expected) ** 2 / expected).sum().item() / (1 - size / stream)
    assert chi2 < 72  # 99.9 % of chi-square with 39 degrees of freedom


def test_the_smallest_keys_of_each_class_stay():
    memory = Memory(4, Policy(lambda x: x[:, 0]), generator(0, "draw"))
    x = torch.tensor([[5.0], [1.0], [3.0], [2.0], [9.0], [7.0]])
    memory.update(x, torch.tensor([0, 0, 0, 0, 1, 1]), task=0)
    memory.update(torch.tensor([[0.5], [8.0]]), torch.tensor([0, 1]), task=0)
    assert sorted(memory.x[:, 0].tolist()) == [0.5, 1.0, 7.0, 8.0]


def test_nothing_is_keyed_while_there_is_room():
    def refuse(x):
        raise AssertionError("asked for a key")

    memory = Memory(10, Policy(refuse), generator(0, "draw"))
    feed(memory, [[0, 0, 1], [1, 0, 2], [3, 3, 3]])
    assert len(memory) == 9


def test_draws_are_different_samples_not_of_the_excluded_task():
    memory = Memory(10, policies["random"](), generator(0, "draw"))
    feed(memory, [[0, 1, 0, 1], [2, 3, 2, 3]])
    for _ in range(20):
        x, y = memory.at(memory.draw(3, exclude_task=1)[0])
        assert len(set(x[:, 0].tolist())) == 3
        assert set(y.tolist()) <= {0, 1}
    x, y = memory.at(memory.draw(100)[0])
    assert len(x) == 8
    x, y = memory.at(memory.draw(5, exclude_task=7)[0])
    assert len(set(x[:, 0].tolist())) == 5


def test_several_draws_are_each_another():
    memory = Memory(40, policies["random"](), generator(0, "draw"))
    feed(memory, [[0, 1] * 10, [2, 3] * 10])
    places = memory.draw(5, exclude_task=0, times=4)
    assert places.shape == (4, 5)
    assert len({tuple(step) for step in places.tolist()}) == 4
    assert all(len(set(step)) == 5 for step in places.tolist())
    assert set(memory.at(places.flatten())[1].tolist()) <= {2, 3}
    assert memory.draw(5, exclude_task=9, times=3).shape == (3, 5)


def test_what_it_holds_by_task_and_class():
    memory = Memory(40, policies["random"](), generator(0, "draw"))
    assert memory.class_counts() == []
    for task, labels in enumerate([[7, 0, 7], [0, 0, 3], [7]]):
        memory.update(torch.rand(len(labels), 2), torch.tensor(labels), task)
    assert memory.class_counts() == [[0, 0, 1], [0, 7, 2], [1, 0, 2], [1, 3, 1], [2, 7, 1]]


def test_a_memory_comes_back_whole_and_goes_on_alike():
    batches = [[0, 1, 0], [1, 1, 0], [2, 2, 3], [3, 2, 2]]
    first, second = (Memory(5, policies["random"](), generator(0, "draw")) for _ in range(2))
    feed(first, batches)
    second.policy.key(torch.zeros(6, 1))  # both key generators at the same place
    second.load_state(first.state())
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.draw(3), second.draw(3))
    second.policy = first.policy  # one generator of keys for both: they are fed in turn
    for batch in ([3, 0, 2], [4, 4, 1]):
        keys = first.policy.key(torch.zeros(9, 1))
        for memory in (first, second):
            memory.policy = Policy(lambda x, keys=keys: keys[: len(x)])
            feed(memory, [batch])
    for name in ("y", "task", "id", "key", "stale"):
        one, other = (getattr(memory.samples, name) for memory in (first, second))
        assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1)), name
    assert torch.equal(first.x, second.x)


# The rule of the released code


def test_released_everything_stays_until_the_memory_has_been_full():
    memory = Memory(10, policies["random anew"](), generator(0, "draw"), "released")
    feed(memory, [[0] * 6, [1] * 4])
    assert Counter(memory.samples.y.tolist()) == {0: 6, 1: 4}
    feed(memory, [[2]])  # full once: now every class has 10 // 3, or what it has
    assert Counter(memory.samples.y.tolist()) == {0: 4, 1: 4, 2: 1}
    feed(memory, [[2]])  # the place that was left stays free: (10 - 2) // 2
    assert Counter(memory.samples.y.tolist()) == {0: 4, 1: 4, 2: 2}


def test_released_past_classes_are_cut_from_the_end_and_not_scored_again():
    asked = []

    def key(x):
        asked.append(x[:, 0].tolist())
        return -x[:, 0]  # keeps the largest

    memory = Memory(4, Policy(key, rekey="every-batch"), generator(0, "draw"), "released")
    memory.update(torch.tensor([[1.0], [2.0], [3.0], [4.0], [5.0]]), torch.zeros(5).long(), 0, {0})
    assert memory.x[:, 0].tolist() == [5, 4, 3, 2]  # in the order of their keys
    memory.update(torch.tensor([[9.0], [8.0], [7.0]]), torch.tensor([1, 1, 1]), 1, {1})
    assert asked[1] == [9, 8, 7]  # class 0 is of a past task
    assert sorted(memory.x[:, 0].tolist()) == [4, 5, 8, 9]


def test_what_stays_is_settled_when_somebody_asks():
    memory = Memory(2, policies["first feature"](), generator(0, "draw"))
    memory.update(torch.tensor([[5.0], [3.0], [1.0]]), torch.zeros(3, dtype=torch.long), task=0)
    assert memory._offer is not None
    assert sorted(memory.x[:, 0].tolist()) == [1, 3]
    assert memory._offer is None
