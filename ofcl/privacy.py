"""Noise on a client's updates: differential privacy, and less (`veiled`).

For differential privacy, updates are clipped, and Gaussian noise is added. Whoever sees the noisy
updates, the server included, can hardly tell which data the client has. Two updates that are
clipped to a length C lie at most 2C apart, so noise of standard deviation z·C is a Gaussian
mechanism of multiplier z / 2. A sequence of n such updates, each of which may depend on the earlier
ones, is a mechanism of multiplier z / (2√n).

The guarantee does not cover the numbers that are sent beside the model: counts of samples and
classes, losses and accuracies.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch

from ofcl.compute import foreach
from ofcl.state import Tensors

Draw = Callable[[torch.Size], torch.Tensor]
"""Draws independent normal numbers (mean 0, deviation 1) of a shape, on the CPU."""


def system_normal(shape: torch.Size) -> torch.Tensor:
    """Draws normal numbers from the operating system's cryptographic generator.

    By the method of Box & Muller (1958), from uniform numbers of 53 bits. Nobody can compute the
    numbers from others that were drawn; they cannot be drawn again either.

    Args:
        shape: The shape of the tensor.
    """
    count = math.prod(shape)
    bits = np.frombuffer(os.urandom(16 * count), dtype=np.uint64) >> np.uint64(11)
    uniform = ((bits.astype(np.float64) + 0.5) * 2.0**-53).reshape(2, count)
    drawn = np.sqrt(-2 * np.log(uniform[0])) * np.cos(2 * np.pi * uniform[1])
    return torch.from_numpy(drawn).float().reshape(shape)


@dataclass(frozen=True)
class Privacy:
    """The clipping and the noise of a client's updates.

    Args:
        clip: The largest Euclidean distance of an update from the global model that the client
            started from.
        noise: The standard deviation of the noise, as a multiple of `clip`.
    """

    clip: float
    noise: float

    def noised(
        self,
        state: Tensors,
        start: Tensors,
        draw: Draw,
        least: Mapping[str, float] = MappingProxyType({}),
    ) -> Tensors:
        """Clips a client's model and adds noise to it.

        Noise may take a variance of BatchNorm to zero or below. Such a variance is replaced by the
        one in `start`, which everybody knows.

        Args:
            state: The client's model.
            start: The global model that the client started from.
            draw: Draws the noise, from a seeded generator or from the operating system's.
            least: The least noise on a tensor, as a multiple of `clip`, by name; where it is
                missing, `noise` alone counts.

        Returns:
            The model that may leave the client.
        """
        within_clip = clipped(state, start, self.clip)
        # Drawn on the CPU, like everything that is random.
        noisy = {
            name: value
            + max(self.noise, least.get(name, 0.0)) * self.clip * draw(value.shape).to(value)
            for name, value in within_clip.items()
        }
        for name, value in noisy.items():
            if name.endswith("running_var"):
                noisy[name] = torch.where(value > 0, value, start[name])
        return noisy


def clipped(state: Tensors, start: Tensors, norm: float) -> Tensors:
    """Pulls a model back towards a second one, if the two are farther apart than allowed.

    >>> clipped({"w": torch.tensor([3.0, 4.0])}, {"w": torch.zeros(2)}, norm=1.0)["w"]
    tensor([0.6000, 0.8000])

    Args:
        state: The model to clip; it is returned as it is if it is near enough.
        start: The second model, which is not changed; it may have more tensors than `state`.
        norm: The largest Euclidean distance allowed, over all numbers of all tensors.
    """
    names, begin = list(state), [start[name] for name in state]
    change = foreach.differences([state[name] for name in names], begin)
    length = float(torch.nn.utils.get_total_norm(change))
    if length <= norm:
        return state
    foreach.scale_all(change, norm / length)
    return dict(zip(names, foreach.sums(begin, change), strict=True))


def veiled(state: Tensors, start: Tensors, share: float, draw: Draw) -> Tensors:
    """Adds noise to a model, in each tensor as a multiple of the change since a second one.

    A sample that alone has moved a few numbers of a tensor is lost in the noise on them; the change
    of the whole tensor, and the mean of many such models, are not. No ε follows from it: the noise
    is longer where the change is.

    Args:
        state: The model.
        start: The second model, which is known to those who see the result; it may have more
            tensors.
        share: The root mean square of the noise on a tensor, divided by that of its change.
        draw: Draws the noise.

    Returns:
        The model that may leave the client.
    """
    noisy = {}
    for name, value in state.items():
        exact = value.double()  # the square of a small change is 0 in fewer bits
        spread = (exact - start[name].double()).square().mean().sqrt()
        noisy[name] = (exact + share * spread * draw(value.shape).to(exact)).to(value)
    return noisy


def epsilon(releases: int, noise: float, delta: float) -> float:
    """Computes the ε of (ε, δ)-differential privacy after a number of noisy updates.

    Exact for Gaussian noise (Balle & Wang 2018): the smallest ε with
    Φ(1/2z − εz) − e^ε Φ(−1/2z − εz) ≤ δ, for the multiplier z of all updates together.

    >>> round(epsilon(1, noise=2.0, delta=1e-5), 2)  # multiplier 1
    4.38

    Args:
        releases: How many updates have left the client.
        noise: The standard deviation of the noise, as a multiple of the clipping length.
        delta: The δ of the guarantee.
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
    """Computes Φ(x): the probability that a standard normal number is below x."""
    return math.erfc(-x / math.sqrt(2)) / 2
