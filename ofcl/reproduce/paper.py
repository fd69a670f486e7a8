"""The numbers that the paper reports (`values/*.csv`), and the settings for each of them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from ofcl.errors import OfclError, unknown
from ofcl.seeds import numpy_generator
from ofcl.uncertainty.perturbations import IMAGE_PERTURBATIONS

_METHODS: dict[str, dict[str, Any]] = {
    "FedAvg": {"method": "none", "aggregation": "fedavg"},
    "Weighted FedAvg": {"method": "none", "aggregation": "weighted"},
    "FedProx": {"method": "none", "aggregation": "fedprox"},
    # Generative methods need the averaged statistics, whatever the protocol does with them.
    "MFCL": {"method": "mfcl", "batchnorm": "average"},
    "FedCIL": {"method": "fedcil", "batchnorm": "average"},
    "ER": {"method": "er"},
    "CBR": {"method": "cbr"},
    **{name: {"method": name.lower()} for name in ("LC", "MS", "RC", "EN", "BI")},
}
_TINY_MEMORY = 2000  # for TinyImageNet the paper gives none; the largest of its other datasets
_ABLATED = {"dataset": "cifar10", "memory": 200}  # settings of an ablation if it names no others


@dataclass(frozen=True)
class Cell:
    """One cell of a table of the paper, and our settings for it.

    Args:
        dataset: The name of the dataset.
        row: The name of the cell's row, in words.
        A: Accuracy in the paper, in percent; None: the paper has none.
        F: Forgetting in the paper, in points; None: the paper has none.
        A_std: The standard deviation of A in the paper; None: the paper has none.
        F_std: The standard deviation of F in the paper; None: the paper has none.
        settings: The settings of our runs by name, without protocol and seed.
        paper: The number in the paper, in tables of another quantity than A and F; else None.
        unit: The unit of `paper`.
    """

    dataset: str
    row: str
    A: float | None
    F: float | None
    A_std: float | None = None
    F_std: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    paper: float | None = None
    unit: str = ""

    def matches(self, wanted: str) -> bool:
        """Says whether the cell fits a description.

        Args:
            wanted: Dataset, memory, method or row, joined by /, for example cifar10/M200/bi; all of
                these parts must fit.
        """
        memory = self.settings.get("memory")
        known = {self.dataset, f"M{memory}".lower(), self.settings["method"], self.row.lower()}
        known |= {self.settings.get("keep", "bottom")}
        return all(part.strip().lower() in known for part in wanted.split("/") if part.strip())


def table(name: str) -> list[Cell]:
    """Lists the cells of a table of the paper.

    Args:
        name: The table's name, one of `TABLES`.

    Raises:
        OfclError: If there is no such table.
    """
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    return TABLES[name]()


def choose(name: str, only: str | None) -> list[Cell]:
    """Lists those cells of a table of the paper that fit a description.

    Args:
        name: The table's name, one of `TABLES`.
        only: The description (`Cell.matches`); None: all cells.

    Raises:
        OfclError: If no cell fits.
    """
    cells = [cell for cell in table(name) if only is None or cell.matches(only)]
    if not cells:
        raise OfclError(f"no cell of {name} is '{only}'; expected something like cifar10/M200/bi")
    return cells


def published_figures(dataset: str, method: str, memory: int) -> Cell | None:
    """Finds the paper's figures for a method in its plain form: `keep = bottom`, FedAvg.

    Args:
        dataset: The name of the dataset.
        method: The name of the method in this package.
        memory: The samples that a client remembers; methods without a memory have any.

    Returns:
        The cell; None: the paper has none.
    """
    for line in _rows("tables.csv"):
        if (line["dataset"], line["keep"]) not in ((dataset, ""), (dataset, "bottom")):
            continue
        named = _METHODS[line["method"]]
        if named["method"] != method or named.get("aggregation", "fedavg") != "fedavg":
            continue
        if line["memory"] in ("", str(memory)):
            return _cell(line)
    return None


def _rows(file: str) -> list[dict[str, str]]:
    """Reads the rows of a CSV file of the paper's numbers, as cells by the name of their column.

    Args:
        file: The name of the file in `values/`.
    """
    text = (resources.files("ofcl.reproduce") / "values" / file).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(text: str) -> float | None:
    """Reads a number; an empty text is None."""
    return float(text) if text else None


def _cell(line: dict[str, str]) -> Cell:
    """Makes a cell of a row of `tables.csv`."""
    settings = {"dataset": line["dataset"], **_METHODS[line["method"]]}
    if line["memory"]:
        settings["memory"] = int(line["memory"])
    elif line["dataset"] == "tinyimagenet" and settings["method"] not in ("none", "mfcl"):
        settings["memory"] = _TINY_MEMORY
    if line["keep"] == "top":
        settings["keep"] = "top"
    memory = f" M = {line['memory']}" if line["memory"] else ""
    return Cell(
        dataset=line["dataset"],
        row=f"{line['method']} {line['keep']}".strip() + memory,
        A=_number(line["A"]),
        F=_number(line["F"]),
        A_std=_number(line["A_std"]),
        F_std=_number(line["F_std"]),
        settings=settings,
    )


def _memories(*datasets: str) -> Callable[[], list[Cell]]:
    """Returns a function that lists the cells of some datasets in which a memory is used.

    For TinyImageNet, it lists the cells without a memory, too.

    Args:
        datasets: The names of the datasets.
    """

    def cells() -> list[Cell]:
        """Lists the cells of these datasets."""
        lines = [line for line in _rows("tables.csv") if line["dataset"] in datasets]
        return [_cell(x) for x in lines if x["memory"] or x["dataset"] == "tinyimagenet"]

    return cells


def _without_memory() -> list[Cell]:
    """Lists the cells without a memory and, for each dataset, BI's cell with the least memory."""
    lines = [line for line in _rows("tables.csv") if line["dataset"] != "tinyimagenet"]
    smallest: dict[str, dict[str, str]] = {}
    for line in lines:
        if (line["method"], line["keep"]) == ("BI", "bottom"):
            smallest.setdefault(line["dataset"], line)
    return [_cell(line) for line in lines if not line["memory"] or line in smallest.values()]


def _ablation(study: str, vary: Callable[[str], dict[str, Any]]) -> Callable[[], list[Cell]]:
    """Returns a function that lists the cells of an ablation study.

    Args:
        study: The name of the study in `ablations.csv`.
        vary: Takes a value that the study varies, as text; returns the settings for it.
    """

    def cells() -> list[Cell]:
        """Lists the cells of this study."""
        return [
            _ablated(line, {**_ABLATED, **_METHODS[line["method"]], **vary(line["setting"])})
            for line in _rows("ablations.csv")
            if line["study"] == study
        ]

    return cells


def _ablated(line: dict[str, str], settings: dict[str, Any]) -> Cell:
    """Makes a cell of a row of `ablations.csv`.

    Args:
        line: The row, as cells by the name of their column.
        settings: The settings of our runs; without `memory` for MFCL, which has none.
    """
    if settings["method"] == "mfcl":
        settings.pop("memory")
    return Cell(
        dataset=settings["dataset"],
        row=f"{line['method']}, {line['study'].split(' (')[0]} {line['setting']}",
        A=_number(line["A"]),
        F=_number(line["F"]),
        settings=settings,
    )


def _fewer_perturbations(count: str) -> dict[str, Any]:
    """Returns the setting that keeps some perturbations, chosen at random; empty if it keeps all.

    The paper removed some perturbations, and does not say which.

    Args:
        count: How many perturbations to keep, as text.
    """
    order = numpy_generator(0, "augmentations").permutation(len(IMAGE_PERTURBATIONS))
    kept = sorted(order[: int(count)].tolist())
    all_of_them = len(kept) == len(IMAGE_PERTURBATIONS)
    return {} if all_of_them else {"perturbations": tuple(IMAGE_PERTURBATIONS[i] for i in kept)}


def _costs(what: str, unit: str) -> Callable[[], list[Cell]]:
    """Returns a function that lists the cells of a cost, such as the runtime.

    Args:
        what: The name of the cost in `costs.csv`.
        unit: The unit of the cost.
    """

    def cells() -> list[Cell]:
        """Lists the cells of this cost."""
        subjects = {"O-FCL": "BI"}
        chosen = []
        for line in _rows("costs.csv"):
            if line["what"] == what:
                method = subjects.get(line["subject"], line["subject"])
                settings = {**_ABLATED, **_METHODS[method]}
                if method not in ("ER", "CBR", "BI"):
                    settings.pop("memory")
                paper = float(line["value"])
                chosen.append(Cell("cifar10", line["subject"], None, None, settings=settings,
                                  paper=paper, unit=unit))  # fmt: skip
        return chosen

    return cells


TABLES: dict[str, Callable[[], list[Cell]]] = {
    "table1": _memories("cifar10"),
    "table2": _memories("cifar100"),
    "table3": _memories("crc-tissue", "kc-cell"),
    "table4": _memories("20newsgroups", "dbpedia", "yahoo"),
    "table5": _without_memory,
    "table6": _memories("tinyimagenet"),
    "burn-in": _ablation("burn-in", lambda value: {"burn_in": int(value)}),
    "averaging": _ablation("averaging", lambda value: {
        "aggregation": str(_METHODS[value]["aggregation"])}),
    "jump": _ablation("jump q", lambda value: {"q": int(value)}),
    "augmentations": _ablation("augmentations", _fewer_perturbations),
    "tasks": _ablation("tasks (CIFAR100)", lambda value: {
        "dataset": "cifar100", "memory": 2000, "tasks": int(value)}),
    "rounds": _costs("communication rounds per task", "rounds a task"),
    "runtime": _costs("runtime CIFAR10", "s"),
}  # fmt: skip
"""Every table that can be run again, by name."""
