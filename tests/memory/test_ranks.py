"""Scores of different times, compared by their rank at their time."""

import numpy as np
import torch

from ofcl import Memory, Policy
from ofcl.memory.ranks import MOST_SCORES, Ranks
from ofcl.seeds import generator
from ofcl.testing.contract import find_difference


def test_ranks_are_even_at_every_time():
    draw, ranks, seen = np.random.default_rng(0), Ranks(0), []
    for n in range(200):
        if n % 5 == 0:
            ranks.begin_time()  # a round: from now on all scores are ten times as large
        scores = draw.random(10) * 10 ** (n // 5 % 3)
        seen.append(ranks.rank(scores, np.zeros(10, dtype=int), np.arange(10 * n, 10 * n + 10)))
    counts = np.histogram(np.concatenate(seen), bins=10, range=(0, 1))[0]
    assert counts.sum() == 2000
    assert counts.min() > 150  # 200 each, with a deviation of 14


def test_a_rank_is_among_the_scores_of_its_class():
    ranks = Ranks(0).rank(np.array([1.0, 2.0, 30.0, 40.0]), np.array([0, 0, 1, 1]), np.arange(4))
    assert (ranks[[0, 2]] < 0.5).all()
    assert (ranks[[1, 3]] > 0.5).all()


def test_the_same_scores_share_their_places():
    ranks = Ranks(0).rank(np.ones(1000), np.zeros(1000, dtype=int), np.arange(1000))
    assert 0.4 < ranks.mean() < 0.6
    assert ranks.std() > 0.2


def test_so_many_scores_are_kept_between_rounds_and_saved():
    ranks, again = Ranks(0), Ranks(0)
    for n in range(30):
        ranks.rank(np.random.default_rng(n).random(10), np.arange(10) % 2, np.arange(10))
    state = ranks.state()
    assert [len(scores) for scores in state["scores"]] == [MOST_SCORES] * 2
    again.load_state(state)
    given = np.array([0.2, 0.9]), np.array([0, 1]), np.array([7, 8])
    assert np.array_equal(ranks.rank(*given), again.rank(*given))


def remember(ranks):
    """Fills a memory while all scores rise: early samples score low, whatever they are like."""
    memory = Memory(
        20, Policy(lambda x: x[:, 0], rekey="on-arrival", ranks=ranks), generator(0, "u")
    )
    for n in range(40):
        memory.update(torch.rand(10, 1) + n, torch.zeros(10).long(), task=0)
        memory.after_round()
    return memory.samples.id.float().mean().item()


def test_by_raw_scores_the_oldest_stay_by_rank_those_of_all_times():
    torch.manual_seed(0)
    assert remember(None) < 15
    assert 120 < remember(Ranks(0)) < 280  # of 400


def test_a_memory_saves_its_ranks():
    def make():
        policy = Policy(lambda x: x[:, 0], rekey="on-arrival", ranks=Ranks(0))
        return Memory(3, policy, generator(0, "u"))

    first, second = make(), make()
    x = torch.rand(10, 1, generator=generator(0, "x"))
    first.update(x, torch.zeros(10).long(), task=0)
    second.load_state(first.state())
    for memory in (first, second):
        memory.update(x + 0.3, torch.zeros(10).long(), task=0)
    assert find_difference(first.state(), second.state()) is None
