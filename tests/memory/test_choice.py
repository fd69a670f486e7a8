"""Which samples of a class stay, given their keys: drawn, spread, or far from each other."""

import numpy as np
import pytest
import torch

from ofcl import Memory, Policy
from ofcl.memory import choice
from ofcl.memory.choice import DIVERSE, SPREAD, Choice, rows_to_compare, weighted
from ofcl.memory.table import Table
from ofcl.seeds import generator

N, ROOM, TRIALS = 60, 20, 150
SCORES = np.linspace(0.1, 6.0, N)


def kept(policy, scores=SCORES, room=ROOM):
    """The scores that a memory keeps of a class that came in six mini-batches."""
    memory = Memory(room, policy, generator(0, "replay"))
    values = torch.tensor(scores, dtype=torch.float)[:, None]
    order = torch.randperm(len(values), generator=generator(0, "order"))
    for rows in order.split(10):
        memory.update(values[rows], torch.zeros(len(rows), dtype=torch.long), task=0)
    return np.sort(memory.x[:, 0].numpy())


def by_first_number(x):
    return x[:, 0]


def mean_kept(beta):
    draws = [kept(Policy(by_first_number, choice=weighted(beta, seed))) for seed in range(TRIALS)]
    return float(np.mean(draws))


def test_a_weighted_reservoir_prefers_uncertain_samples_below_zero_and_certain_ones_above():
    mean = SCORES.mean()  # 3.05; the deviation of a mean of 20 of these, 150 times, is 0.03
    assert mean_kept(0.0) == pytest.approx(mean, abs=0.12)  # chance, as CBR
    assert mean_kept(-0.5) > mean + 0.3
    assert mean_kept(0.5) < mean - 0.3


def test_a_large_power_keeps_the_least_uncertain():
    assert kept(Policy(by_first_number, choice=weighted(1000.0, 0))).max() < SCORES[ROOM + 1]


def test_without_a_power_everybody_stays_equally_often():
    stays = np.zeros(N)
    for seed in range(TRIALS):
        stays += np.isin(
            SCORES.astype(np.float32), kept(Policy(by_first_number, choice=weighted(0.0, seed)))
        )
    assert stays.sum() == TRIALS * ROOM
    share = stays / TRIALS  # 1/3, with a deviation of 0.04
    assert share.min() > 0.18
    assert share.max() < 0.5


def test_a_score_of_zero_can_be_weighted():
    scores = np.zeros(N)
    assert len(kept(Policy(by_first_number, choice=weighted(-0.5, 0)), scores)) == ROOM


def test_the_draw_of_a_sample_stays_when_it_is_scored_again():
    arrivals = np.arange(5)
    first, second = (
        weighted(1.0, 3).priority(keys, arrivals) for keys in (np.ones(5), np.full(5, 2.0))
    )
    assert np.allclose(second, np.log(2) + first)


def test_spread_keeps_both_ends_and_even_gaps():
    scores = np.concatenate([np.linspace(0, 1, 50), np.linspace(1, 10, 10)])  # most are small
    staying = kept(Policy(by_first_number, choice=SPREAD), scores)
    assert staying[0] == 0
    assert staying[-1] == 10
    assert (staying > 1).sum() == 9  # all of the rare ones; by chance it would be 3
    assert np.diff(staying[staying <= 1]).max() < 0.2


def test_spread_with_room_for_one():
    assert kept(Policy(by_first_number, choice=SPREAD), room=1)[0] == pytest.approx(0.1)


class Angles:
    """A scorer that says how far apart samples (angle, score) are."""

    frozen = True

    def __init__(self):
        self.compared = []

    def distances_between(self, x):
        self.compared.append(len(x))
        z = torch.stack([x[:, 0].cos(), x[:, 0].sin()], 1)
        return 1 - z @ z.T


def remember_angles(angles, scores, room):
    scorer = Angles()
    policy = Policy(lambda x: x[:, 1], choice=DIVERSE, scorer=scorer)
    memory = Memory(room, policy, generator(0, "replay"))
    memory.update(
        torch.tensor(np.array([angles, scores], dtype=np.float32)).T,
        torch.zeros(len(angles)).long(),
        task=0,
    )
    return memory, scorer


def test_of_two_near_samples_the_one_with_the_smaller_key_stays():
    memory, _ = remember_angles([0.0, 0.01, 1.0, 1.02, 2.0], [5.0, 1.0, 2.0, 3.0, 9.0], room=3)
    assert sorted(memory.samples.key.tolist()) == [1, 2, 9]


def test_near_samples_of_different_classes_do_not_meet():
    policy = Policy(lambda x: x[:, 1], choice=DIVERSE, scorer=Angles())
    memory = Memory(4, policy, generator(0, "replay"))
    x = torch.tensor([[0.0, 1], [1.0, 2], [1.05, 3], [0.01, 4], [2.0, 5], [2.05, 6]])
    memory.update(x, torch.tensor([0, 0, 0, 1, 1, 1]), task=0)
    assert sorted(memory.samples.key.tolist()) == [1, 2, 4, 5]


def test_only_so_many_of_a_class_are_compared(monkeypatch):
    monkeypatch.setattr(choice, "MOST_COMPARED", 8)
    angles = np.linspace(0, 3, 30, dtype=np.float32)
    memory, scorer = remember_angles(angles, angles, room=5)  # more go than were compared
    assert scorer.compared == [8]
    assert len(memory) == 5


def test_other_samples_are_compared_with_every_mini_batch():
    table = Table(200)
    table.id[:] = np.arange(200)
    first, second = (rows_to_compare(table, [np.arange(200)], moment) for moment in (1, 2))
    assert len(first) == len(second) == choice.MOST_COMPARED
    assert len(np.intersect1d(first, second)) < choice.MOST_COMPARED


def test_the_plain_choice_keeps_ties_in_their_order():
    order = Choice().order(np.array([1.0, 0.0, 1.0, 0.0]), np.arange(4), np.empty((0, 0)), 2)
    assert order.tolist() == [1, 3, 0, 2]
