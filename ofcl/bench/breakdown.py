"""How the time of a mini-batch splits: each part alone, without the overlap that hides it."""

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
ROUNDS = 4


class Clock:
    """Counts time by the innermost part that it is in."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._device, self._inner = device, [0.0]

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time spent in here is of this part, less what inner parts take."""
        synchronise(self._device)
        start = time.perf_counter()
        self._inner.append(0.0)
        yield
        synchronise(self._device)
        spent = time.perf_counter() - start
        self.seconds[name] += spent - self._inner.pop()
        self._inner[-1] += spent

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Counts every call of an object's method, or function that it has, to a part."""
        watched: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **options: Any) -> Any:
            with self.part(name):
                return watched(*arguments, **options)

        object.__setattr__(owner, method, timed)


def time_parts(work: Workload) -> dict[str, float]:
    """Milliseconds of each part: a mini-batch's, a round's, an evaluation's of 1,000 samples.

    Those of mini-batch and round are of one client.
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
            for method in ("draw", "update", "_settle"):
                clock.watch(learner.memory, method, "memory")
            if learner.memory.policy.scorer is not None:
                clock.watch(learner.memory.policy.scorer, "uncertainty_of", "score")
    for group in bench.engine.groups:
        if group.stack is not None:
            clock.watch(group.stack, "take_steps", "step")
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
    """Milliseconds of the augmentation in a mini-batch's steps, of which it is a part."""
    learner, stream = bench.clients[0].learner, bench.clients[0].stream
    assert isinstance(learner, Replay)
    if learner.augment is None or learner.steps == 1:
        return 0.0
    x = next(stream).x.repeat(learner.steps - 1, 1, 1, 1)
    draws = learner.augment.draw(x.shape, learner.generator).to(bench.device)
    return _milliseconds(bench.device, lambda: learner.augment.apply(x, draws))  # type: ignore[union-attr]


def _evaluation(bench: Bench) -> float:
    rows = [torch.arange(TESTED).numpy()]
    held = HeldOut(bench.dataset.x_test, bench.dataset.y_test, rows, bench.dataset.prepare)
    model = bench.clients[0].model
    return _milliseconds(bench.device, lambda: held.hits(model, [[0]]))


def _milliseconds(device: torch.device, function: Callable[[], Any], calls: int = 5) -> float:
    function()
    synchronise(device)
    start = time.perf_counter()
    for _ in range(calls):
        function()
    synchronise(device)
    return 1e3 * (time.perf_counter() - start) / calls
