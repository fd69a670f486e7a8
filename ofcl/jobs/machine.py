"""The part of this machine that each of several workers gets: a GPU, and some of the cores."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

THREADS = "OMP_NUM_THREADS"
GPUS = "CUDA_VISIBLE_DEVICES"


def visible_gpus(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Lists the GPUs that this process may use, by the names that `CUDA_VISIBLE_DEVICES` has.

    Args:
        environment: The environment variables of this process.
    """
    if (given := environment.get(GPUS)) is not None:
        return [name.strip() for name in given.split(",") if name.strip() not in ("", "-1")]
    return [str(number) for number in range(torch.cuda.device_count())]


def usable_cores() -> int:
    """Counts the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux: containers and `taskset` may allow fewer
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_environment(
    number: int,
    workers: int,
    gpus: list[str],
    cores: int,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Makes the environment variables of a worker: its GPU in turn, and its share of the cores.

    A number of threads that the user has set stays. So do the GPUs that are visible if there are
    fewer than two.

    Args:
        number: The number of the worker, from 0.
        workers: How many workers there are.
        gpus: The GPUs, by name; empty: all that are visible stay so.
        cores: The number of cores to share.
        environment: The environment variables of this process.

    >>> worker_environment(3, 4, ["0", "2"], 10, {})
    {'OMP_NUM_THREADS': '2', 'CUDA_VISIBLE_DEVICES': '2'}
    """
    own = dict(environment)
    own.setdefault(THREADS, str(max(cores // workers, 1)))
    if len(gpus) > 1:
        own[GPUS] = gpus[number % len(gpus)]
    return own
