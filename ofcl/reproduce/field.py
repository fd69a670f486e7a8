"""The field: every method of the package on four datasets under two protocols, as one suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ofcl.errors import OfclError
from ofcl.methods import METHODS
from ofcl.reproduce import paper, plan
from ofcl.settings.files import dataset_preset

FIELD = "field"
MEMORY = {"cifar10": 200, "fashion-mini": 200, "20newsgroups": 60, "kc-cell": 120}
"""The datasets of the suite, and the samples that a client remembers of each."""
PROTOCOLS = ("sound", "strong")
SEEDS = 5
# Its clients see 23 mini-batches of a task: the paper's burn-in of 30 would leave no round.
_SMALL = {("fashion-mini", "sound"): {"burn_in": 5}}
_SAME_TO_THE_PAPER = {"device", "data_root", "threads", "embedder"}
"""Settings that may be given, and the paper's figures still stand beside ours."""


@dataclass(frozen=True)
class Contest:
    """The runs of all methods on one dataset under one protocol, which can be compared.

    Args:
        dataset: The name of the dataset.
        protocol: The name of the protocol.
        jobs: The runs.
    """

    dataset: str
    protocol: str
    jobs: list[plan.Job]

    @property
    def title(self) -> str:
        """The name of the contest for the user."""
        return f"{self.dataset}, M = {MEMORY[self.dataset]}, {self.protocol}"


def field_cells(dataset: str) -> list[paper.Cell]:
    """Lists a cell for each method, with the figures that the paper has for it, if any.

    Args:
        dataset: The name of the dataset.
    """
    memory = MEMORY[dataset]
    cells = []
    for method in METHODS:
        known = paper.published_figures(dataset, method, memory)
        settings: dict[str, Any] = {"dataset": dataset, "method": method, "memory": memory}
        blank = paper.Cell(dataset, method, None, None)
        cells.append(replace(known or blank, row=method, settings=settings))
    return cells


def read_places(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Reads where datasets of the suite are, from `NAME=PATH`.

    Args:
        given: The texts. A path to a folder is the data folder of that dataset; one to a file is
            read in place of the official files.

    Returns:
        The settings by the dataset's name.

    Raises:
        OfclError: If a text names no dataset of the suite, or no path that is there.
    """
    places: dict[str, dict[str, Any]] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or name not in MEMORY:
            raise OfclError(f"--data '{text}'; expected NAME=PATH, NAME one of {', '.join(MEMORY)}")
        where = Path(path).expanduser()
        if not where.exists():
            raise OfclError(f"--data '{text}': there is no '{path}'")
        whole = str(where.resolve())
        places[name] = {"data_root": whole} if where.is_dir() else {"dataset": whole}
    return places


def contests(
    seeds: int,
    protocols: Sequence[str],
    out: Path,
    further: Mapping[str, Any],
    places: Mapping[str, Mapping[str, Any]],
    only: str | None = None,
) -> list[Contest]:
    """Lists the runs of the suite, dataset by dataset and protocol by protocol.

    Args:
        seeds: The number of seeds, which count from 0.
        protocols: The names of the protocols.
        out: The folder of all runs.
        further: Settings that override those of the suite.
        places: Settings of single datasets (`read_places`).
        only: Those parts alone that fit a description: `dataset/method/protocol`, of which each
            may be left out, and be several with commas between them; None: all.

    Raises:
        OfclError: If nothing fits the description.
    """
    found = []
    for dataset in MEMORY:
        for protocol in protocols:
            cells = [c for c in field_cells(dataset) if _fits(c, protocol, only)]
            if further.keys() - _SAME_TO_THE_PAPER or "dataset" in places.get(dataset, {}):
                cells = [replace(c, A=None, F=None, A_std=None, F_std=None) for c in cells]
            # The paper's settings for a dataset hold for a file in its place, too.
            preset = {**dataset_preset(dataset, protocol), **_SMALL.get((dataset, protocol), {})}
            own = {**preset, **further, **places.get(dataset, {})}
            jobs = plan.jobs(cells, seeds, protocol, out, own)
            if jobs:
                found.append(Contest(dataset, protocol, jobs))
    if not found:
        raise OfclError(
            f"nothing of the field is '{only}'; expected something like fashion-mini/er,bi/sound"
        )
    return found


def _fits(cell: paper.Cell, protocol: str, only: str | None) -> bool:
    """Says whether a cell fits a description, all of its parts."""
    known = {cell.dataset, cell.row, protocol, f"m{MEMORY[cell.dataset]}"}
    parts = [part.split(",") for part in (only or "").split("/") if part.strip()]
    return all(known & {name.strip().lower() for name in names} for names in parts)
