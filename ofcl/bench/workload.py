"""The work that is timed: clients in a long stream, with full memories, on random data."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ofcl.algorithm import federate
from ofcl.assembly.make_client import build_client
from ofcl.assembly.make_server import build_server
from ofcl.assembly.resolve import find_device, resolve
from ofcl.client import Client
from ofcl.data.dataset import Dataset
from ofcl.data.stream import Batch
from ofcl.engines.local import LocalEngine
from ofcl.evaluation.held_out import HeldOut, HeldOutParts
from ofcl.events import Event, Round
from ofcl.memory.memory import Memory
from ofcl.memory.policy import Policy, random_key
from ofcl.seeds import generator
from ofcl.settings.layers import make_settings
from ofcl.state import State

FEWEST = 640  # samples that the streams repeat; which ones they are does not change the time
TESTED = 1000  # samples of an evaluation
WARM_UP = 2  # rounds before the measurement


@dataclass(frozen=True)
class Workload:
    """The work that is timed: the method, the sizes, the device.

    Args:
        method: The method's name.
        memory: How many samples a client remembers.
        clients: The number of clients.
        shape: The shape of a sample: (channels, height, width), or (length,).
        classes: The number of classes.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
        settings: Other settings by name.
    """

    method: str = "bi"
    memory: int = 200
    clients: int = 5
    shape: tuple[int, ...] = (3, 32, 32)
    classes: int = 10
    device: str = "auto"
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def images(self) -> bool:
        """Whether samples are images; else they are vectors."""
        return len(self.shape) > 1

    def current(self, y: Tensor) -> Tensor:
        """Returns a mask (n,) of the samples of the current task: the second half of the classes.

        Args:
            y: The class (n,) of each sample.
        """
        return y >= self.classes // 2


def random_dataset(work: Workload) -> Dataset:
    """Makes a dataset of random samples, with at least twice as many as a client remembers.

    Args:
        work: The workload, with shape and classes of the samples.
    """
    batch_size = int(work.settings.get("batch_size", 10))
    draw, train = generator(0, "bench"), max(FEWEST, 2 * work.memory, 4 * batch_size)
    shape, y = (train + TESTED, *work.shape), torch.arange(train + TESTED) % work.classes
    labels = tuple(map(str, range(work.classes)))
    if work.images:
        x, kind = torch.randint(0, 256, shape, generator=draw, dtype=torch.uint8), "image"
        colours = (0.5,) * work.shape[0], (0.25,) * work.shape[0]
    else:
        x, kind, colours = torch.randn(shape, generator=draw), "vector", ((), ())
    parts = x[:train], y[:train], x[train:], y[train:]
    return Dataset("made", kind, *parts, labels, *colours)  # type: ignore[arg-type]


class EndlessStream:
    """A client's stream that repeats mini-batches of the current task for ever.

    Args:
        dataset: The samples.
        work: The workload, which says which classes are of the current task.
        batch_size: The number of samples of a mini-batch.
    """

    def __init__(self, dataset: Dataset, work: Workload, batch_size: int) -> None:
        current = work.current(dataset.y_train).nonzero().squeeze(1)
        current = current[: max(FEWEST, batch_size)]
        device = dataset.x_train.device
        self._batches = itertools.cycle(
            [
                Batch(dataset.prepare(dataset.x_train[part.to(device)]), dataset.y_train[part], 1)
                for part in torch.split(current, batch_size)
                if len(part) == batch_size
            ]
        )

    def ready(self) -> bool:
        """Returns True: the next mini-batch is always ready."""
        return True

    def next_task(self) -> int | None:
        """Returns 0: the client's task never changes."""
        return 0

    def __next__(self) -> Batch:
        return next(self._batches)

    def notices(self) -> list[Event]:
        """Returns an empty list: this stream has no notices."""
        return []

    def state(self) -> State:
        """Returns an empty state: a benchmark is not saved."""
        return {}

    def load_state(self, state: State) -> None:
        """Does nothing: a benchmark is not resumed."""


def fill(memory: Memory, dataset: Dataset, work: Workload) -> None:
    """Fills a memory with samples of both tasks, without scoring them.

    Args:
        memory: The memory.
        dataset: The samples.
        work: The workload, which says which classes are of the current task.
    """
    policy, key = memory.policy, random_key(generator(0, "fill"))
    memory.policy = Policy(key, balanced=policy.balanced)  # to score all samples would take long
    now = work.current(dataset.y_train)
    for task, rows in enumerate([~now, now]):
        y = dataset.y_train[rows]
        x = dataset.prepare(dataset.x_train[rows.to(dataset.x_train.device)])
        memory.update(x, y, task, set(y.tolist()))
    len(memory)  # makes the memory decide which samples stay
    memory.policy = policy


class Bench:
    """Clients and a server that run a workload, round by round.

    Args:
        work: The workload.

    Attributes:
        events: The events of the run, which never ends.
    """

    def __init__(self, work: Workload) -> None:
        values = {
            "protocol": "sound", "method": work.method, "memory": work.memory,
            "clients": work.clients, "device": work.device, "burn_in": 0,
            "min_clients": min(2, work.clients), **work.settings,
        }  # fmt: skip
        dataset = random_dataset(work)
        self.settings = resolve(make_settings(values), dataset)
        self.device = find_device(self.settings.device)
        self.dataset = dataset.to(self.device)
        self.clients = [self._client(work, number) for number in range(work.clients)]
        self.server = build_server(self.settings, self.dataset)
        self.engine = LocalEngine(self.clients)
        self.events = federate(self.engine, self.server)

    def _client(self, work: Workload, number: int) -> Client:
        """Builds a client with an endless stream and a full memory.

        Args:
            work: The workload.
            number: The client's number.
        """
        nothing = HeldOut(self.dataset.x_test, self.dataset.y_test, [])
        client = build_client(
            self.settings,
            self.dataset,
            number,
            stream=EndlessStream(self.dataset, work, self.settings.batch_size),
            held_out=HeldOutParts(nothing, nothing),
            tasks=None,
        )
        if client.learner.memory is not None:
            fill(client.learner.memory, self.dataset, work)
        return client

    def run(self, rounds: int) -> None:
        """Lets the clients learn for some more rounds, and waits until the device is done.

        Args:
            rounds: The number of rounds.
        """
        while rounds:
            rounds -= isinstance(next(self.events), Round)
        synchronise(self.device)

    def milliseconds(self, seconds: float) -> float:
        """Measures the mean milliseconds of a mini-batch of one client, rounds included.

        Args:
            seconds: The least time to measure for, after some rounds to warm up.
        """
        self.run(WARM_UP)
        gc.collect()  # objects of earlier workloads would be freed while this one is timed
        per_round = seconds_per_round(lambda: self.run(1), seconds)
        return 1e3 * per_round / (self.settings.q * len(self.clients))


def seconds_per_round(run_round: Callable[[], None], seconds: float) -> float:
    """Measures the mean seconds of a round, with the mini-batches before it.

    Args:
        run_round: Runs one round, and waits until the device is done.
        seconds: The least time to measure for; at least one round is run.
    """
    rounds, start = 0, time.perf_counter()
    while rounds < 1 or time.perf_counter() - start < seconds:
        run_round()
        rounds += 1
    return (time.perf_counter() - start) / rounds


def synchronise(device: torch.device) -> None:
    """Waits until a device has done all its work.

    Args:
        device: The device.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
