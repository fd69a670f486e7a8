"""The contract of a stream: mini-batches of one client, task after task, from any position."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from ofcl.data.stream import Batch, Stream
from ofcl.testing.contract import find_difference, require, save_and_read, untouched_generators

PATIENCE = 10.0  # seconds until a stream must have its next batch, or have ended

MakeStream = Callable[[], Stream]


def check_stream(make: MakeStream, most: int = 30) -> None:
    """Checks that a stream brings valid mini-batches in order, and goes on from any position.

    Args:
        make: Opens the stream at its beginning; the same stream each time. If it shares something
            with a run, such as the vocabulary of a live stream, that must be filled already.
        most: How many mini-batches are checked, as a stream may have no end.

    Raises:
        ContractBroken: If the stream does not keep one of its promises.
    """
    with untouched_generators("a stream"):
        stream = make()
        states: list[Any] = []
        batches: list[Batch] = []
        while len(batches) < most:
            states.append(save_and_read(stream.state(), "a stream"))
            batch = _take(stream, batches)
            if batch is None:
                break
            batches.append(batch)
        require(bool(batches), "a stream to check brings at least one mini-batch; it brought none")
        for position, state in enumerate(states):
            _check_from(make, position, state, batches)


def _take(stream: Stream, before: list[Batch]) -> Batch | None:
    """Takes the next mini-batch of a stream and checks it; returns None if the stream has ended.

    Args:
        stream: The stream.
        before: The mini-batches that were taken before; tasks must not go back.
    """
    _wait_for(stream)
    announced = stream.next_task()
    require(isinstance(stream.notices(), list), "the notices of a stream are a list of events")
    require(
        stream.notices() == [],
        "a stream tells each notice once; asked twice, it told one again",
    )
    if announced is None:
        _check_end(stream)
        return None
    batch = next(stream)
    _check_batch(batch)
    require(
        batch.task is None or batch.task == announced,
        f"a stream announces the task of its next mini-batch; it announced {announced} and brought "
        f"{batch.task}",
    )
    earlier = [other.task for other in before if other.task is not None]
    require(
        batch.task is None or not earlier or batch.task >= earlier[-1],
        f"tasks never go back; after {earlier[-1:]} came {batch.task}",
    )
    return batch


def _wait_for(stream: Stream) -> None:
    """Waits until a stream has its next mini-batch or has ended, for at most 10 seconds."""
    deadline = time.monotonic() + PATIENCE
    while not stream.ready():
        require(
            time.monotonic() < deadline,
            f"a stream to check has its next mini-batch, or its end, within {PATIENCE:.0f} seconds",
        )
        time.sleep(0.001)


def _check_end(stream: Stream) -> None:
    """Requires that a stream without a next task yields no mini-batch, and never has one again."""
    ended = False
    try:
        next(stream)
    except StopIteration:
        ended = True
    require(ended, "a stream without a next task has ended; `next` brought a mini-batch")
    require(stream.next_task() is None, "a stream that has ended stays so; it announces a task")


def _check_batch(batch: Batch) -> None:
    """Requires finite samples, and a class for each sample."""
    n = len(batch.y)
    require(
        n > 0 and len(batch.x) == n,
        f"a mini-batch has samples, and a class for each: it has {len(batch.x)} samples and {n} "
        "classes",
    )
    require(
        batch.y.dtype == torch.long and batch.y.dim() == 1 and batch.y.device.type == "cpu",
        f"classes are integers (n,) on the CPU; they are {batch.y.dtype} {tuple(batch.y.shape)} on "
        f"{batch.y.device}",
    )
    require(int(batch.y.min()) >= 0, f"classes count from 0; these came: {batch.y.tolist()}")
    require(
        batch.x.is_floating_point() and bool(batch.x.isfinite().all()),
        f"samples come as a model takes them, as finite numbers; {batch.x.dtype} came, or some "
        "that are not finite",
    )


def _check_from(make: MakeStream, position: int, state: Any, batches: list[Batch]) -> None:
    """Puts a new stream at a position, and compares its mini-batches with the expected ones.

    Args:
        make: Opens the stream.
        position: How many mini-batches were taken before.
        state: The state of the stream at this position.
        batches: All mini-batches of the stream.
    """
    stream = make()
    stream.load_state(state)
    for number in range(position, len(batches)):
        batch = _take(stream, [])
        different = find_difference(tuple(batches[number]), tuple(batch or ()))
        require(
            different is None,
            f"a stream put to where {position} mini-batches had been taken goes on from there; "
            f"mini-batch {number} differs at {different}",
        )
