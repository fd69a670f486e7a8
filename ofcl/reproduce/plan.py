"""The runs of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofcl.data.named.catalogue import DATASETS
from ofcl.evaluation.results import Result
from ofcl.reproduce.paper import Cell
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory
from ofcl.uncertainty.perturbations import IMAGE_PERTURBATIONS


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
    found = []
    for cell in cells:
        settings = make_settings({"protocol": protocol, **cell.settings, **further, "seed": 0})
        place = out / protocol / folder(cell, protocol)
        found += [
            Job(
                cell,
                settings.model_copy(update={"seed": seed}),
                RunDirectory(place / f"seed{seed}"),
            )
            for seed in range(seeds)
        ]
    return found


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


def samples(dataset: str, settings: Settings) -> int:
    """Tells how many train samples of a dataset a run has.

    Args:
        dataset: The name of the dataset, also where the settings have a file in its place.
        settings: The settings of the run.
    """
    source = DATASETS[dataset]
    per_class = (settings.train_per_class or source.train) * source.classes
    return min(source.train, per_class, settings.train_head or source.train)


def batches(dataset: str, settings: Settings) -> int:
    """Estimates how many mini-batches the clients of a run learn, summed over all clients.

    Args:
        dataset: The name of the dataset, also where the settings have a file in its place.
        settings: The settings of the run.
    """
    whole = int(samples(dataset, settings) * (1 - settings.validation)) // settings.batch_size
    limit = settings.limit
    return min(whole, limit * settings.clients * settings.tasks) if limit else whole
