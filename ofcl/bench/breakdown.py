"""How long each part of a mini-batch takes alone, without other work at the same time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ofcl.bench.workload import TESTED, Bench, Workload, synchronise
from ofcl.evaluation.held_out import HeldOut
from ofcl.methods.replay import Replay

PARTS = ("step", "augment", "score", "memory", "round", "evaluation")
ROUNDS = 4  # over which the parts are timed


class Clock:
    """Adds up the seconds that each part of some work takes, by the part's name (`seconds`).

    Time in a part within another counts for the inner part only.

    Args:
        device: The device that does the work; its queue is emptied before the time is read.
    """

    def __init__(self, device: torch.device) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._device, self._inner = device, [0.0]

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Adds the time spent within the context to a part.

        Args:
            name: The name of the part.
        """
        synchronise(self._device)
        start = time.perf_counter()
        self._inner.append(0.0)
        yield
        synchronise(self._device)
        spent = time.perf_counter() - start
        self.seconds[name] += spent - self._inner.pop()
        self._inner[-1] += spent

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Replaces a method by one that adds the time of every call to a part.

        Args:
            owner: The object with the method.
            method: The name of the method, or of an attribute that is a function.
            name: The name of the part.
        """
        watched: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **options: Any) -> Any:
            """Calls the replaced method with the same arguments, and adds the time of the call."""
            with self.part(name):
                return watched(*arguments, **options)

        object.__setattr__(owner, method, timed)


def time_parts(work: Workload) -> dict[str, float]:
    """Measures the milliseconds of each part of one client's work.

    Args:
        work: The workload.

    Returns:
        The milliseconds by part (`PARTS`). A round is counted for one round, an evaluation for
        1,000 samples, all other parts for one mini-batch.
    """
    bench = Bench(work)
    bench.run(2)
    clock = Clock(bench.device)
    for client in bench.clients:
        learner = client.learner
        assert isinstance(learner, Replay)
        clock.watch(learner, "_captured", "step")
        clock.watch(client, "update", "round")
        clock.watch(client, "receive", "round")
        if learner.memory is not None:
            for method in ("draw", "update", "offer", "set_keys", "_settled"):
                clock.watch(learner.memory, method, "memory")
            if learner.memory.policy.scorer is not None:
                clock.watch(learner.memory.policy.scorer, "uncertainty_of", "score")
    memory = bench.clients[0].learner.memory
    scored = memory is not None and memory.policy.scorer is not None
    for group in bench.engine.groups:
        if group.stack is not None:
            clock.watch(group.stack, "take_steps", "step")
            clock.watch(group.stack, "remember", "score" if scored else "memory")
    clock.watch(bench.server, "aggregate", "round")
    bench.run(ROUNDS)
    augment = _augmentation(bench)
    clients, batches = len(bench.clients), ROUNDS * bench.settings.q
    times = {p: 1e3 * clock.seconds[p] / clients / batches for p in ("step", "score", "memory")}
    times["step"] -= augment
    times["augment"] = augment
    times["round"] = 1e3 * clock.seconds["round"] / clients / ROUNDS
    times["evaluation"] = _evaluation(bench)
    return {part: times[part] for part in PARTS}


def _augmentation(bench: Bench) -> float:
    """Measures the milliseconds of augmentation in a mini-batch; 0 if there is none.

    Args:
        bench: The clients at work, of which the first is measured.
    """
    learner, stream = bench.clients[0].learner, bench.clients[0].stream
    assert isinstance(learner, Replay)
    if learner.augment is None or learner.steps == 1:
        return 0.0
    x = next(stream).x.repeat(learner.steps - 1, 1, 1, 1)
    draws = learner.augment.draw(x.shape, learner.generator).to(bench.device)
    return _milliseconds(bench.device, lambda: learner.augment.apply(x, draws))  # type: ignore[union-attr]


def _evaluation(bench: Bench) -> float:
    """Measures the milliseconds of an evaluation of 1,000 samples by the first client's model."""
    rows = [torch.arange(TESTED).numpy()]
    held_out = HeldOut(bench.dataset.x_test, bench.dataset.y_test, rows, bench.dataset.prepare)
    model = bench.clients[0].model
    return _milliseconds(bench.device, lambda: held_out.hits(model, [[0]]))


def _milliseconds(device: torch.device, function: Callable[[], Any], calls: int = 5) -> float:
    """Measures the mean milliseconds of a call of a function.

    Args:
        device: The device that does the work.
        function: The function.
        calls: How many calls to measure, after one to warm up.
    """
    function()
    synchronise(device)
    start = time.perf_counter()
    for _ in range(calls):
        function()
    synchronise(device)
    return 1e3 * (time.perf_counter() - start) / calls
