"""What is timed: clients in the middle of a long stream, with full memories, on made data."""

from __future__ import annotations

import gc
import itertools
import time
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

FEWEST = 640  # samples that the streams repeat: their values do not matter
TESTED = 1000  # samples of an evaluation
WARM_UP = 2  # rounds before it counts


@dataclass(frozen=True)
class Workload:
    """Clients of one method, with samples of one form."""

    method: str = "bi"
    memory: int = 200
    clients: int = 5
    shape: tuple[int, ...] = (3, 32, 32)
    classes: int = 10
    device: str = "auto"
    settings: dict[str, Any] = field(default_factory=dict)  # others, by name

    @property
    def images(self) -> bool:
        """Whether samples are images; otherwise they are vectors."""
        return len(self.shape) > 1

    def current(self, y: Tensor) -> Tensor:
        """Whether samples are of the current task: it has the second half of the classes."""
        return y >= self.classes // 2


def made_dataset(work: Workload) -> Dataset:
    """Random samples, twice as many as are to be remembered or more."""
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
    """Mini-batches of the current task, for ever."""

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
        """Whether the next batch is there: always."""
        return True

    def next_task(self) -> int | None:
        """The task of the batch that comes next: the one that the client is at."""
        return 0

    def __next__(self) -> Batch:
        return next(self._batches)

    def notices(self) -> list[Event]:
        """Nothing is to be told."""
        return []

    def state(self) -> State:
        """Nobody saves a bench."""
        return {}

    def load_state(self, state: State) -> None:
        """Nor resumes it."""


def fill(memory: Memory, dataset: Dataset, work: Workload) -> None:
    """Fills a memory with samples of all classes; keys are drawn, to score them all takes long."""
    policy, drawn = memory.policy, random_key(generator(0, "fill"))
    memory.policy = Policy(drawn, balanced=policy.balanced)
    now = work.current(dataset.y_train)
    for task, rows in enumerate([~now, now]):
        y = dataset.y_train[rows]
        x = dataset.prepare(dataset.x_train[rows.to(dataset.x_train.device)])
        memory.update(x, y, task, set(y.tolist()))
    len(memory)  # it settles what stays
    memory.policy = policy


class Bench:
    """A workload that can be let run for a while."""

    def __init__(self, work: Workload) -> None:
        values = {
            "method": work.method, "memory": work.memory, "clients": work.clients,
            "device": work.device, "burn_in": 0, "min_clients": min(2, work.clients),
            **work.settings,
        }  # fmt: skip
        dataset = made_dataset(work)
        self.settings = resolve(make_settings(values), dataset)
        self.device = find_device(self.settings.device)
        self.dataset = dataset.to(self.device)
        self.clients = [self._client(work, number) for number in range(work.clients)]
        self.server = build_server(self.settings, self.dataset)
        self.engine = LocalEngine(self.clients)
        self._events = federate(self.engine, self.server)

    def _client(self, work: Workload, number: int) -> Client:
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
        """Lets the clients learn up to so many rounds."""
        while rounds:
            rounds -= isinstance(next(self._events), Round)
        synchronise(self.device)

    def milliseconds(self, seconds: float) -> float:
        """The time of a mini-batch of one client, rounds included; measured for so long or more."""
        self.run(WARM_UP)
        gc.collect()  # what earlier workloads left behind would be freed while this one is timed
        rounds, start = 0, time.perf_counter()
        while rounds < 1 or time.perf_counter() - start < seconds:
            self.run(1)
            rounds += 1
        batches = rounds * self.settings.q * len(self.clients)
        return 1e3 * (time.perf_counter() - start) / batches


def synchronise(device: torch.device) -> None:
    """Waits for a device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
