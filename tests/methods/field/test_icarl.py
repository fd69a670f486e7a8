"""iCaRL: its loss, and which samples herding keeps."""

import math

import numpy as np
import pytest
import torch

from ofcl.memory.herding import herd
from ofcl.memory.memory import Memory
from ofcl.methods.field import icarl
from ofcl.methods.parts import PolicyParts
from ofcl.seeds import generator


def test_the_loss_by_hand():
    # The teacher knows class 0 alone, with σ = 3/4. The model has σ = 1/2, 1/5 and 1/2.
    taught = torch.tensor([[math.log(3), 0.0, 0.0]])
    logits = torch.tensor([[0.0, -math.log(4), 0.0]])
    known, met = torch.tensor([True, False, False]), torch.tensor([True, True, False])
    loss = icarl.binary_cross_entropy(logits, torch.tensor([1]), taught, known, met)
    assert loss.item() == pytest.approx(math.log(2) + math.log(5))


def cosines(angles):
    angles = np.array(angles)
    return np.cos(angles[:, None] - angles)


def test_herding_by_hand():
    # The mean of angles −1, 0, 0.1 and 0.9 points near 0. First comes 0; then the pair's mean
    # should point there too: 0.1 is nearer than −1 and 0.9.
    distances = 1 - cosines([-1.0, 0.0, 0.1, 0.9])
    assert herd(np.ones(4), distances, 1).tolist() == [False, True, False, False]
    assert herd(np.ones(4), distances, 2).tolist() == [False, True, True, False]


def test_herding_is_the_greedy_mean():
    draw = np.random.default_rng(0)
    features = draw.normal(size=(12, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    weights = draw.integers(1, 5, 12).astype(float)
    mean, total, chosen = weights @ features / weights.sum(), np.zeros(3), []
    for k in range(1, 6):
        far = np.linalg.norm(mean - (features + total) / k, axis=1)
        far[chosen] = np.inf
        chosen.append(int(np.argmin(far)))
        total = total + features[chosen[-1]]
    mask = herd(weights, 1 - features @ features.T, 5)
    assert np.flatnonzero(mask).tolist() == sorted(chosen)


class Directions:
    """A scorer whose features are the samples themselves."""

    frozen = True

    def distances_between(self, x):
        z = torch.nn.functional.normalize(x)
        return 1 - z @ z.T


def test_a_sample_stands_for_those_that_went():
    draws = generator(0, "memory")
    parts = PolicyParts(draws, lambda name: Directions())
    memory = Memory(3, icarl.policy(parts), draws)
    x = torch.randn(20, 2, generator=draws)
    memory.update(x[:8], torch.zeros(8, dtype=torch.long), 0)
    memory.update(x[8:], torch.tensor([0] * 11 + [1]), 0)
    samples = memory.samples
    of_zero = samples.y == 0
    assert samples.key[of_zero].sum().item() == pytest.approx(19)
    assert samples.key[~of_zero].tolist() == [1.0]
