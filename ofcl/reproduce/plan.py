"""The runs of a table, and how long they will take."""

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

_SHAPES: dict[str, tuple[int, ...]] = {
    "cifar10": (3, 32, 32), "cifar100": (3, 32, 32), "tinyimagenet": (3, 64, 64),
    "crc-tissue": (3, 28, 28), "kc-cell": (1, 28, 28), "digits": (1, 8, 8),
    "fashion-mini": (1, 28, 28),
}  # fmt: skip
_VECTOR = (384,)  # of an embedded text
_FACTORS = {"mfcl": 1.7, "fedcil": 3.4}  # times as long as plain learning, measured on CIFAR-10


@dataclass(frozen=True)
class Job:
    """One run of a table.

    Args:
        cell: The cell of the table that the run is for.
        settings: The settings of the run, with its seed.
        directory: The run directory.
    """

    cell: Cell
    settings: Settings
    directory: RunDirectory

    @property
    def result(self) -> Result | None:
        """The result of the run; None if it is not finished."""
        return self.directory.result() if self.directory.started() else None


def jobs(
    cells: Sequence[Cell], seeds: int, protocol: str, out: Path, further: dict[str, Any]
) -> list[Job]:
    """Lists the runs of cells, one for each seed; cells with the same settings share a directory.

    Args:
        cells: The cells of a table.
        seeds: The number of seeds, which count from 0.
        protocol: The name of the protocol.
        out: The folder of all runs.
        further: Settings that override those of the cells.
    """
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
    """Names the folder of a cell's runs by the settings that are not the protocol's defaults.

    Args:
        cell: The cell; cells with equal settings get the same name.
        protocol: The name of the protocol.
    """
    named = {"protocol": protocol, "dataset": cell.dataset, "method": cell.settings["method"]}
    defaults = make_settings(named)
    parts = [cell.dataset, named["method"]]
    for key, value in sorted(cell.settings.items()):
        if key == "perturbations":
            numbers = [IMAGE_PERTURBATIONS.index(name) + 1 for name in value]
            parts.append("perturbations-" + "-".join(map(str, numbers)))
        elif key == "memory" or value != getattr(defaults, key):
            parts.append(f"{key}-{value}")
    return "_".join(parts)


def batches(dataset: str, settings: Settings) -> int:
    """Estimates how many mini-batches the clients of a run learn, summed over all clients.

    Args:
        dataset: The name of the dataset, also where the settings have a file in its place.
        settings: The settings of the run.
    """
    source = DATASETS[dataset]
    per_class = (settings.train_per_class or source.train) * source.classes
    samples = min(source.train, per_class, settings.train_head or source.train)
    whole = int(samples * (1 - settings.validation)) // settings.batch_size
    limit = settings.limit
    return min(whole, limit * settings.clients * settings.tasks) if limit else whole


def estimate(missing: Sequence[Job], tell: Callable[[str], None] = print) -> float:
    """Estimates the seconds that runs will take on this machine, from short measurements.

    Args:
        missing: The runs that are still to be made.
        tell: Gets a line before each measurement.

    Returns:
        The sum of the seconds of all these runs.
    """
    measured: dict[tuple[Any, ...], float] = {}
    seconds = 0.0
    for job in missing:
        settings, dataset = job.settings, job.cell.dataset
        method, shape = _timed_method(settings.method), _SHAPES.get(dataset, _VECTOR)
        kind = (method, shape, settings.memory, settings.protocol)
        if kind not in measured:
            tell(f"timing {method}, M = {settings.memory}, on {' × '.join(map(str, shape))}")
            bench = Bench(_workload(dataset, settings, method, shape))
            measured[kind] = bench.milliseconds(seconds=0.5)
        factor = _FACTORS.get(settings.method, 1.0)
        seconds += factor * measured[kind] * batches(dataset, settings) / 1e3
    return seconds


def _timed_method(method: str) -> str:
    """Returns the name of the method whose time is measured to estimate that of a method.

    All scores take as long as BI. Generative methods are estimated from plain learning, `none`,
    times their factor in `_FACTORS`.

    Args:
        method: The name of the method to estimate.
    """
    if METHODS[method].generative is not None:
        return "none"
    return "bi" if METHODS[method].score is not None else method


def _workload(dataset: str, settings: Settings, method: str, shape: tuple[int, ...]) -> Workload:
    """Makes the workload whose time is measured to estimate that of a run.

    Args:
        dataset: The name of the dataset.
        settings: The settings of the run.
        method: The name of the method to measure (`_timed_method`).
        shape: The shape of a sample.
    """
    # A CPU is slow and runs clients one after the other: two of them, and short rounds, are enough.
    slow = find_device(settings.device).type == "cpu"
    return Workload(
        method=method,
        memory=settings.memory,
        clients=min(settings.clients, 2) if slow else settings.clients,
        shape=shape,
        classes=DATASETS[dataset].classes,
        device=settings.device,
        settings={"protocol": settings.protocol, "q": 1 if slow else settings.q},
    )
