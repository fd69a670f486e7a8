"""Randomness is data: every generator is made here, from a seed and what it is for.

A run never touches the global generators. Two purposes, or two clients, never share a
generator, so adding a draw in one place does not move the draws of another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose.

    >>> derive(0, "memory", 1) == derive(0, "memory", 1)
    True
    >>> derive(0, "memory", 1) == derive(0, "memory", 2)
    False
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A PyTorch generator of its own for one purpose."""
    return torch.Generator().manual_seed(derive(seed, *purpose))


def numpy_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A NumPy generator of its own for one purpose."""
    return np.random.default_rng(derive(seed, *purpose))


@contextmanager
def private(seed: int, *purpose: str | int) -> Iterator[None]:
    """Code that can only draw from PyTorch's global generator, such as a module's initialisation.

    The global generator is put back as it was.
    """
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the GPUs' generators too, which are not put back.
        torch.default_generator.manual_seed(derive(seed, *purpose))
        yield
