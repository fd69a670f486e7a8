"""How long the runs of a table will take on this machine, from a few short measurements.

On a CPU, some methods take seconds for a mini-batch of a large network. So there:

- Two mini-batches of one client are timed, the second together with the round before it.
- If runs differ in their sizes alone (`Size`), methods are timed with the smallest images, and only
  `er` with the others. It says how much slower these are, which is nearly the same for all methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from ofcl.assembly.resolve import resolve
from ofcl.bench.workload import Bench, Workload
from ofcl.data.dataset import Dataset
from ofcl.data.named.catalogue import DATASETS
from ofcl.events import Learned
from ofcl.methods import METHODS
from ofcl.pretrained.backbone_names import is_backbone
from ofcl.reproduce.plan import Job, batches, samples
from ofcl.settings.rules import given
from ofcl.settings.schema import Settings

_SHAPES: dict[str, tuple[int, ...]] = {
    "cifar10": (3, 32, 32), "cifar100": (3, 32, 32), "tinyimagenet": (3, 64, 64),
    "crc-tissue": (3, 28, 28), "kc-cell": (1, 28, 28), "digits": (1, 8, 8),
    "fashion-mini": (1, 28, 28),
}  # fmt: skip
_VECTOR = (384,)  # of an embedded sample
_TIMED_AS = {"cbr": "er", "gdumb": "none", "mfcl": "none", "fedcil": "none", "target": "none"}
_FACTORS = {"mfcl": 1.7, "fedcil": 3.4}  # times as long as `none`, measured on CIFAR-10
_YARDSTICK = "er"
_NETWORK = ("protocol", "model", "width", "hidden")
_RECIPE = (
    *_NETWORK, "steps", "batch_size", "replay", "replay_ratio", "augment", "augmented", "loss",
    "precision", "optimizer",
)  # fmt: skip
_LONG_ENOUGH = 0.3  # seconds of a measurement


@dataclass(frozen=True)
class Size:
    """The sizes whose effect on the time is much the same for all methods.

    Args:
        shape: The shape of a sample.
        classes: The number of classes.
        memory: How many samples a client remembers.
    """

    shape: tuple[int, ...]
    classes: int
    memory: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """The place among other sizes: the smallest images first, then the largest memory."""
        return prod(self.shape), -self.memory, self.classes


@dataclass(frozen=True)
class Kind:
    """The facts that decide how long a mini-batch takes: runs of one kind are timed once.

    Args:
        method: The method that is timed (`_TIMED_AS`).
        size: The sizes of samples and memory.
        clients: The number of clients.
        q: The mini-batches between two rounds.
        device: The device.
        recipe: The values of the settings in `_RECIPE`.
        slow: Whether rounds are timed apart, and `er` says what other sizes cost.
    """

    method: str
    size: Size
    clients: int
    q: int
    device: str
    recipe: tuple[Any, ...]
    slow: bool

    def __str__(self) -> str:
        shape, protocol = " × ".join(map(str, self.size.shape)), self.recipe[0]
        return f"{self.method}, M = {self.size.memory}, on {shape}, {protocol}"

    @property
    def workload(self) -> Workload:
        """The workload that is timed."""
        recipe = dict(zip(_RECIPE, self.recipe, strict=True))
        return Workload(
            method=self.method,
            memory=self.size.memory,
            clients=self.clients,
            shape=self.size.shape,
            classes=self.size.classes,
            device=self.device,
            settings={**recipe, "q": self.q},
        )


@dataclass(frozen=True)
class Seconds:
    """How long a client takes.

    Args:
        batch: The seconds of a mini-batch.
        round: The seconds that a round adds; 0 if `batch` has its share of them.
    """

    batch: float
    round: float = 0.0


def estimate(missing: Sequence[Job], tell: Callable[[str], None] = print) -> float:
    """Estimates the seconds that runs will take on this machine, one after the other.

    Args:
        missing: The runs that are still to be made.
        tell: Gets a line before each measurement.

    Returns:
        The sum of the seconds of all these runs.
    """
    # Runs in one folder differ in their seeds alone.
    jobs = {job.directory.path.parent: job for job in missing}
    settings = {folder: resolved(job) for folder, job in jobs.items()}
    kinds = {folder: kind_of(job, settings[folder]) for folder, job in jobs.items()}
    sources = what_to_time(kinds.values())
    timed = list(dict.fromkeys(kind for some in sources.values() for kind in some))
    measured: dict[Kind, Seconds] = {}
    for n, kind in enumerate(timed, 1):
        tell(f"timing {n} of {len(timed)}: {kind}")
        measured[kind] = measure(kind)
    seconds = 0.0
    for job in missing:
        folder = job.directory.path.parent
        kind = kinds[folder]
        cost = combined(kind, [(each, measured[each]) for each in sources[kind]])
        per_batch = cost.batch + cost.round / settings[folder].q
        seconds += per_batch * _like_timed(job, settings[folder])
    return seconds


def _shape(job: Job) -> tuple[int, ...]:
    """Returns the shape of the samples that a run learns.

    Args:
        job: The run.
    """
    embedded = "embedder" in given(job.settings)
    return _VECTOR if embedded else _SHAPES.get(job.cell.dataset, _VECTOR)


def _timed_as(method: str) -> str:
    """Returns the name of the method that is timed to estimate the time of a method.

    Args:
        method: The name of the method to estimate.
    """
    if METHODS[method].score is not None:
        return "bi"  # all scores take as long
    return _TIMED_AS.get(method, method)


def resolved(job: Job) -> Settings:
    """Fills in what a run leaves to its data, with the method that is timed in place of its own.

    Args:
        job: The run.
    """
    source, shape = DATASETS[job.cell.dataset], _shape(job)
    n = samples(job.cell.dataset, job.settings)
    x, y = torch.zeros((1, *shape)).expand(n, *shape), torch.arange(n) % source.classes
    labels, colour = tuple(map(str, range(source.classes))), (0.5,) * (len(shape) // 3)
    kind: Any = "image" if len(shape) > 1 else "vector"
    method = _timed_as(job.settings.method)
    settings = job.settings.model_copy(update={"method": method})
    if is_backbone(settings.model):  # it may have to be downloaded: the usual network is timed
        settings = settings.model_copy(update={"model": "auto"})
    return resolve(settings, Dataset("made", kind, x, y, x[:1], y[:1], labels, colour, colour))


def kind_of(job: Job, settings: Settings) -> Kind:
    """Tells what is to be timed for a run.

    Args:
        job: The run.
        settings: Its settings (`resolved`).
    """
    # On a CPU, clients with networks other than `mlp` learn one after the other: one is enough.
    slow = torch.device(settings.device).type == "cpu" and settings.model != "mlp"
    return Kind(
        method=settings.method,
        size=Size(_shape(job), DATASETS[job.cell.dataset].classes, settings.memory),
        clients=1 if slow else settings.clients,
        q=1 if slow else settings.q,
        device=settings.device,
        recipe=tuple(getattr(settings, setting) for setting in _RECIPE),
        slow=slow,
    )


def what_to_time(kinds: Collection[Kind]) -> dict[Kind, list[Kind]]:
    """Lists for each kind the kinds whose times give its own: itself, or three others.

    The three are its method at the smallest size that the method has with the same settings, `er`
    at that size, and `er` at the size of the kind.

    Args:
        kinds: The kinds of all runs.
    """
    no_size, networks = Size((), 0, 0), len(_NETWORK)
    yardsticks = {(k.recipe[:networks], k.size): k for k in kinds if k.method == _YARDSTICK}
    smallest: dict[Kind, Size] = {}
    for kind in sorted(kinds, key=lambda kind: kind.size.rank, reverse=True):
        smallest[replace(kind, size=no_size)] = kind.size
    found = {}
    for kind in kinds:
        small = replace(kind, size=smallest[replace(kind, size=no_size)])
        both = [yardsticks.get((kind.recipe[:networks], size)) for size in (small.size, kind.size)]
        others = [small, *(yardstick for yardstick in both if yardstick is not None)]
        shared = kind.slow and kind != small and kind.method != _YARDSTICK and len(others) == 3
        found[kind] = others if shared else [kind]
    return found


def combined(kind: Kind, measured: Sequence[tuple[Kind, Seconds]]) -> Seconds:
    """Computes how long a kind takes.

    Args:
        kind: The kind.
        measured: The kinds that `what_to_time` lists for it, with their times.
    """
    (small, cost), *yardsticks = measured
    if not yardsticks:
        return cost
    slower = yardsticks[1][1].batch / yardsticks[0][1].batch
    # After a round, what is remembered is scored anew.
    more = slower * kind.size.memory / small.size.memory
    return Seconds(cost.batch * slower, cost.round * more)


def measure(kind: Kind) -> Seconds:
    """Times a kind.

    Args:
        kind: The kind.
    """
    bench = Bench(kind.workload)
    if not kind.slow:
        return Seconds(bench.milliseconds(_LONG_ENOUGH) / 1e3)
    first, *others = batch_times(bench, _LONG_ENOUGH)
    with_round = sum(others) / len(others)
    return Seconds(min(first, with_round), max(with_round - first, 0.0))


def batch_times(bench: Bench, seconds: float) -> list[float]:
    """Times the mini-batches of a client, each but the first with the round before it.

    Args:
        bench: The client, with a round after every mini-batch.
        seconds: The least time for all of them; at least two are timed.
    """
    times, start = [], time.perf_counter()
    begun = start
    for event in bench.events:
        if isinstance(event, Learned):
            now = time.perf_counter()
            times.append(now - begun)
            begun = now
            if len(times) > 1 and now - start >= seconds:
                break
    return times


def _like_timed(job: Job, settings: Settings) -> float:
    """Estimates how many mini-batches like those that are timed a run takes, over all clients.

    Args:
        job: The run.
        settings: Its settings (`resolved`).
    """
    method = job.settings.method
    if method == "gdumb":  # before each test, a client learns its whole memory for many epochs
        passes = settings.clients * (settings.tasks or 1) * settings.fitting_epochs
        return passes * settings.memory / settings.batch_size
    return _FACTORS.get(method, 1.0) * batches(job.cell.dataset, settings)
