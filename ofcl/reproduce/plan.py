"""The runs that a table takes, and how long they will."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofcl.assembly.resolve import find_device
from ofcl.bench.workload import Bench, Workload
from ofcl.data.named.catalogue import DATASETS
from ofcl.evaluation.results import Result
from ofcl.methods import METHODS
from ofcl.reproduce.paper import Cell
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory
from ofcl.uncertainty.perturbations import IMAGE_PERTURBATIONS
from ofcl.uncertainty.scores import SCORES

_SHAPES: dict[str, tuple[int, ...]] = {
    "cifar10": (3, 32, 32), "cifar100": (3, 32, 32), "tinyimagenet": (3, 64, 64),
    "crc-tissue": (3, 28, 28), "kc-cell": (1, 28, 28), "digits": (1, 8, 8),
    "fashion-mini": (1, 28, 28),
}  # fmt: skip
_VECTOR = (384,)  # of an embedded text
_AS_NONE = {"mfcl": 1.7, "fedcil": 3.4}  # times as long as plain learning, as measured on CIFAR-10


@dataclass(frozen=True)
class Job:
    """One run: a cell with a seed."""

    cell: Cell
    settings: Settings
    directory: RunDirectory

    @property
    def result(self) -> Result | None:
        """Its result, if it has been run."""
        return self.directory.result() if self.directory.started() else None


def jobs(
    cells: Sequence[Cell], seeds: int, protocol: str, out: Path, further: dict[str, Any]
) -> list[Job]:
    """The runs of these cells, cell by cell; those that two cells share are the same."""
    return [
        Job(
            cell,
            make_settings({"protocol": protocol, **cell.settings, **further, "seed": seed}),
            RunDirectory(out / protocol / folder(cell, protocol) / f"seed{seed}"),
        )
        for cell in cells
        for seed in range(seeds)
    ]


def folder(cell: Cell, protocol: str) -> str:
    """Where its runs are: named by what it changes, so that cells that are the same share them."""
    named = {"protocol": protocol, "dataset": cell.dataset, "method": cell.settings["method"]}
    usual = make_settings(named)
    parts = [cell.dataset, named["method"]]
    for key, value in sorted(cell.settings.items()):
        if key == "perturbations":
            numbers = [IMAGE_PERTURBATIONS.index(name) + 1 for name in value]
            parts.append("perturbations-" + "-".join(map(str, numbers)))
        elif key == "memory" or value != getattr(usual, key):
            parts.append(f"{key}-{value}")
    return "_".join(parts)


def batches(settings: Settings) -> int:
    """About how many mini-batches all clients of a run learn together."""
    source = DATASETS[settings.dataset]
    per_class = (settings.train_per_class or source.train) * source.classes
    samples = min(source.train, per_class, settings.train_head or source.train)
    whole = int(samples * (1 - settings.validation)) // settings.batch_size
    limit = settings.limit
    return min(whole, limit * settings.clients * settings.tasks) if limit else whole


def estimate(missing: Sequence[Job], tell: Callable[[str], None] = print) -> float:
    """Seconds that the runs will take on this machine, from a short measurement of each kind."""
    known: dict[tuple[Any, ...], float] = {}
    seconds = 0.0
    for job in missing:
        made = job.settings
        factor = _AS_NONE.get(made.method, 1.0)
        kind = (_like(made.method), _SHAPES.get(made.dataset, _VECTOR), made.memory, made.protocol)
        if kind not in known:
            tell(f"timing {kind[0]}, M = {made.memory}, on {' × '.join(map(str, kind[1]))}")
            known[kind] = Bench(_workload(made, *kind[:2])).milliseconds(seconds=0.5)
        seconds += factor * known[kind] * batches(made) / 1e3
    return seconds


def _like(method: str) -> str:
    """A method that takes as long, but for a factor: all scores do."""
    if METHODS[method].generative is not None:
        return "none"
    return "bi" if method in SCORES else method


def _workload(made: Settings, method: str, shape: tuple[int, ...]) -> Workload:
    # A CPU does the work of one client after the other, and takes its time: little is enough.
    slow = find_device(made.device).type == "cpu"
    return Workload(
        method=method,
        memory=made.memory,
        clients=min(made.clients, 2) if slow else made.clients,
        shape=shape,
        classes=DATASETS[made.dataset].classes,
        device=made.device,
        settings={"protocol": made.protocol, "q": 1 if slow else made.q},
    )
