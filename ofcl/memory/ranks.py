"""Ranks: scores of different times made comparable.

A score comes from the model of the moment. As the model learns, all scores of a class fall or rise
together, so that a raw score tells rather when a sample came than what it is like.
"""

from __future__ import annotations

import numpy as np
import torch

from ofcl.seeds import scattered
from ofcl.state import State

MOST_SCORES = 100  # of each class, that a score is compared with


class Ranks:
    """Turns scores into ranks from 0 to 1, among the scores of the same class since the last round.

    A sample's rank is the share of these scores, at most the last 100, that are smaller than its
    own. Its place among equal scores, its own included, is drawn at random. So the ranks of any
    time between two rounds are spread evenly from 0 to 1.

    >>> ranks = Ranks(seed=0)
    >>> ranks.rank(np.array([5.0, 7.0, 6.0]), np.zeros(3, dtype=int), np.arange(3)).argsort()
    array([0, 2, 1])

    Args:
        seed: The seed of the draws, different for each client.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._scores: dict[int, np.ndarray] = {}  # of each class, since the last round

    def rank(self, scores: np.ndarray, y: np.ndarray, arrival: np.ndarray) -> np.ndarray:
        """Returns the ranks (n,) of samples that have just arrived, and remembers their scores.

        Args:
            scores: The score of each sample (n,).
            y: The class of each sample (n,).
            arrival: The number of each sample's arrival (n,).
        """
        ranks, drawn = np.empty(len(scores)), scattered(self._seed, arrival)
        for c in np.unique(y):
            mine = y == c
            before = self._scores.get(int(c), scores[:0])
            others = self._scores[int(c)] = np.concatenate([before, scores[mine]])[-MOST_SCORES:]
            smaller = (others < scores[mine, None]).sum(1)
            same = (others == scores[mine, None]).sum(1)  # itself at least
            ranks[mine] = (smaller + drawn[mine] * same) / len(others)
        return ranks.clip(0, 1)

    def begin_time(self) -> None:
        """Forgets all scores: a round has passed, and another model scores from now on."""
        self._scores = {}

    def state(self) -> State:
        """Returns the scores since the last round, for a checkpoint."""
        return {
            "classes": list(self._scores),
            "scores": [torch.from_numpy(scores) for scores in self._scores.values()],
        }

    def load_state(self, state: State) -> None:
        """Puts back the scores since the last round.

        Args:
            state: The scores that `state` returned.
        """
        pairs = zip(state["classes"], state["scores"], strict=True)
        self._scores = {int(c): scores.numpy() for c, scores in pairs}
