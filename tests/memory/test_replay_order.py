"""How samples are drawn for replay."""

from collections import Counter

import numpy as np
import pytest
import torch

from ofcl import Memory, Policy
from ofcl.memory.replay_order import class_by_class, uncertain_first
from ofcl.seeds import generator


def test_class_by_class_every_class_comes_before_any_comes_twice():
    y = np.array([0] * 20 + [1] * 3 + [2])
    draw = generator(0, "u")
    firsts = Counter()
    for _ in range(300):
        order = class_by_class(y, draw).numpy()
        assert sorted(order.tolist()) == list(range(24))
        assert sorted(y[order[:3]].tolist()) == [0, 1, 2]
        assert sorted(y[order[:5]].tolist()) == [0, 0, 1, 1, 2]
        firsts[int(y[order[0]])] += 1
    assert firsts[0] > firsts[1] > firsts[2] > 0  # which class is first depends on its size


def test_uncertain_samples_come_more_often_by_their_rank():
    uncertainty, draw = np.array([0.3, 100.0, 0.2, 0.1]), generator(0, "u")
    first = Counter(int(uncertain_first(uncertainty, draw)[0]) for _ in range(4000))
    shares = [first[n] / 4000 for n in range(4)]
    assert shares == pytest.approx([0.3, 0.4, 0.2, 0.1], abs=0.03)


def test_an_unknown_uncertainty_counts_as_in_the_middle():
    uncertainty, draw = np.array([np.nan, 1.0, 2.0]), generator(0, "u")
    first = Counter(int(uncertain_first(uncertainty, draw)[0]) for _ in range(4000))
    assert [first[n] / 4000 for n in range(3)] == pytest.approx([0.4, 0.2, 0.4], abs=0.03)


@pytest.mark.parametrize("reversed_", [False, True])
def test_a_memory_replays_uncertain_samples_whatever_the_sign_of_its_keys(reversed_):
    sign = -1 if reversed_ else 1
    policy = Policy(lambda x: sign * x[:, 0], rekey="on-arrival", reversed=reversed_)
    memory = Memory(10, policy, generator(0, "u"), replay_draw="key")
    memory.update(torch.arange(10.0)[:, None], torch.zeros(10).long(), task=0)
    drawn = memory.at(memory.draw(3, times=500))[0]
    assert drawn.mean() > 5.3  # 4.5 if all were drawn alike
    assert all(len(set(places.tolist())) == 3 for places in memory.draw(3, times=20))


def test_a_memory_replays_class_by_class():
    memory = Memory(
        12, Policy(lambda x: x[:, 0], balanced=False), generator(0, "u"), replay_draw="class"
    )
    memory.update(torch.rand(12, 1), torch.tensor([0] * 9 + [1] * 3), task=0)
    y = memory.at(memory.draw(4, times=50))[1]
    assert (y.sum(1) == 2).all()


def test_an_empty_memory_and_an_excluded_task():
    for draw in ("uniform", "class", "key"):
        memory = Memory(4, Policy(lambda x: x[:, 0]), generator(0, "u"), replay_draw=draw)
        assert memory.draw(3, times=2).shape == (2, 0)
        memory.update(torch.rand(3, 1), torch.tensor([0, 1, 1]), task=0)
        assert memory.draw(3, exclude_task=0).shape == (1, 0)
