"""Differential privacy of what a client sends: its update is clipped, and Gaussian noise is added.

Nobody who sees the noisy updates, the server included, can tell well whether the client's data were
these or any others. Two updates that are clipped to a length C lie at most 2C apart, so noise of
deviation z·C is a Gaussian mechanism of multiplier z / 2; n of them, each of which may depend on
those before, are one of multiplier z / (2√n). Sample counts, class counts and what is told of
losses and accuracy are not covered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ofcl.compute import foreach
from ofcl.state import Tensors


@dataclass(frozen=True)
class Privacy:
    """How far an update may go from the global model, and the noise as a multiple of that."""

    clip: float
    noise: float

    def noised(self, state: Tensors, start: Tensors, generator: torch.Generator) -> Tensors:
        """A model that goes at most `clip` from the one it started from, with noise.

        Where noise takes a variance of BatchNorm to zero or below, it is the one of the start,
        which everybody knows.
        """
        deviation = self.noise * self.clip
        near = clipped(state, start, self.clip)
        # Drawn on the CPU, like everything that is random.
        noisy = {
            name: value + deviation * torch.randn(value.shape, generator=generator).to(value)
            for name, value in near.items()
        }
        for name, value in noisy.items():
            if name.endswith("running_var"):
                noisy[name] = torch.where(value > 0, value, start[name])
        return noisy


def clipped(state: Tensors, start: Tensors, norm: float) -> Tensors:
    """A model that goes at most so far from another: if it goes farther, it is pulled back.

    >>> clipped({"w": torch.tensor([3.0, 4.0])}, {"w": torch.zeros(2)}, norm=1.0)["w"]
    tensor([0.6000, 0.8000])
    """
    names, begun = list(state), [start[name] for name in state]
    way = foreach.differences([state[name] for name in names], begun)
    length = float(torch.nn.utils.get_total_norm(way))
    if length <= norm:
        return state
    foreach.scale_all(way, norm / length)
    return dict(zip(names, foreach.sums(begun, way), strict=True))


def epsilon(releases: int, noise: float, delta: float) -> float:
    """The ε of (ε, δ)-differential privacy after so many updates with this noise.

    Exact for Gaussian noise (Balle & Wang 2018): the smallest ε with
    Φ(1/2z − εz) − e^ε Φ(−1/2z − εz) ≤ δ, for the multiplier z of all updates together.

    >>> round(epsilon(1, noise=2.0, delta=1e-5), 2)  # multiplier 1
    4.38
    """
    if releases == 0:
        return 0.0
    if noise == 0:
        return math.inf
    z = noise / (2 * math.sqrt(releases))

    def leaked(value: float) -> float:
        tail = _normal(-1 / (2 * z) - value * z)
        return _normal(1 / (2 * z) - value * z) - (math.exp(value) * tail if tail > 0 else 0.0)

    low, high = 0.0, 1.0
    while leaked(high) > delta:
        low, high = high, 2 * high
        if high > 700:  # e^ε is not a number any more
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if leaked(middle) > delta else (low, middle)
    return high


def _normal(x: float) -> float:
    """The share of normal numbers below x."""
    return math.erfc(-x / math.sqrt(2)) / 2
