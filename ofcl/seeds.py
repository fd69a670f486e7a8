"""Random generators: every one is made here, from a seed and its purpose.

A run never touches the global generators. Two purposes, or two clients, never share a generator. So
drawing one number more for one purpose does not change what is drawn for another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive(seed: int, *purpose: str | int) -> int:
    """Derives a 63-bit seed for one purpose.

    >>> derive(0, "memory", 1) == derive(0, "memory", 1)
    True
    >>> derive(0, "memory", 1) == derive(0, "memory", 2)
    False

    Args:
        seed: The run's seed.
        *purpose: What the random numbers are for, and which client draws them.
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Makes a PyTorch generator for one purpose.

    Args:
        seed: The run's seed.
        *purpose: What the random numbers are for, as for `derive`.
    """
    return torch.Generator().manual_seed(derive(seed, *purpose))


def numpy_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Makes a NumPy generator for one purpose.

    Args:
        seed: The run's seed.
        *purpose: What the random numbers are for, as for `derive`.
    """
    return np.random.default_rng(derive(seed, *purpose))


def scattered(seed: int, numbers: np.ndarray) -> np.ndarray:
    """Draws one value between 0 and 1 for each number; a number gets the same value in every call.

    For draws that belong to a sample: the sample's number and the seed give its value again, so
    nothing has to be saved. The numbers are mixed as SplitMix64 does (Steele et al. 2014).

    >>> bool((scattered(1, np.array([5, 6])) == scattered(1, np.array([4, 5, 6]))[1:]).all())
    True

    Args:
        seed: A seed of 63 bits, as `derive` gives.
        numbers: Integers (n,), not negative.

    Returns:
        The values (n,).
    """
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed += np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    drawn: np.ndarray = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return drawn


@contextmanager
def private(seed: int, *purpose: str | int) -> Iterator[None]:
    """Seeds PyTorch's global generator for a block of code, and restores it afterwards.

    For code that can draw from no other generator, such as a module's initialisation.

    Args:
        seed: The run's seed.
        *purpose: What the random numbers are for, as for `derive`.
    """
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the GPUs' generators too, which are not put back.
        torch.default_generator.manual_seed(derive(seed, *purpose))
        yield
