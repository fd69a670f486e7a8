"""Comparing finished runs: A and F over seeds, one line for each experiment."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ofcl.errors import OfclError
from ofcl.evaluation import metrics
from ofcl.evaluation.results import Result
from ofcl.report.significance import Difference, paired_difference
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.storage.run_directory import RunDirectory

_SAME_EXPERIMENT = {
    "seed",
    "device",
    "engine",
    "ray",
    "checkpoint_every",
    "data_root",
}  # what may differ between its runs


@dataclass(frozen=True)
class Spread:
    """A mean and what it varies by; None where it cannot be known."""

    mean: float | None
    std: float | None

    def __str__(self) -> str:
        if self.mean is None:
            return "–"
        return f"{self.mean:.2f}" + (f" ± {self.std:.2f}" if self.std is not None else "")


@dataclass(frozen=True)
class Line:
    """One experiment: the settings that tell it from the others, and its results."""

    settings: dict[str, Any]
    seeds: tuple[int, ...]
    A: Spread
    F: Spread
    global_A: Spread
    global_F: Spread
    A_by_seed: dict[int, list[float]]  # of each client
    A_over_seeds: Spread
    F_over_seeds: Spread
    A_over_clients: Spread  # of the clients' means over seeds
    F_over_clients: Spread
    A_less_best: Difference | None = None  # A less that of the best; None: too few seeds in common
    left_out: int = 0  # runs of a seed that another run has too, with another result


def over_seeds(values: Sequence[float | None]) -> Spread:
    """Mean and standard deviation over seeds.

    >>> str(over_seeds([1.0, 2.0, 3.0])), str(over_seeds([1.0]))
    ('2.00 ± 1.00', '1.00')
    """
    there = [value for value in values if value is not None]
    return Spread(metrics.mean(there), statistics.stdev(there) if len(there) > 1 else None)


def over_clients(values: Sequence[Sequence[float | None]]) -> Spread:
    """The mean, and the standard deviation over clients of their means over runs, as released.

    >>> str(over_clients([[1.0, 3.0], [3.0, 5.0]]))  # runs × clients
    '3.00 ± 1.00'
    """
    means = [metrics.mean(client) for client in zip(*values, strict=True)]
    there = [value for value in means if value is not None]
    return Spread(metrics.mean(there), statistics.pstdev(there) if there else None)


def find_runs(paths: Iterable[str | Path]) -> list[RunDirectory]:
    """The run directories among these paths and below them."""
    found = []
    for path in map(Path, paths):
        if not path.exists():
            raise OfclError(f"no such directory: '{path}'")
        below = sorted(_runs_below(path))
        if not below:
            raise OfclError(f"no run in '{path}': a run directory has a settings.toml")
        found += below
    return [RunDirectory(path) for path in dict.fromkeys(found)]


def _runs_below(path: Path) -> Iterator[Path]:
    """The run directories at a path and below; it does not look into them, for some may go on."""
    for folder, inside, files in os.walk(path):
        if "settings.toml" in files:
            inside.clear()
            yield Path(folder)


def compare(paths: Iterable[str | Path]) -> tuple[list[Line], list[Path]]:
    """One line for each experiment, best A first; and the runs that are not finished."""
    finished, unfinished = [], []
    for run in find_runs(paths):
        result = run.result()
        if result is None:
            unfinished.append(run.path)
        else:
            finished.append((run.settings(), result))
    return compare_results(finished), unfinished


def compare_results(runs: Iterable[tuple[Settings, Result]]) -> list[Line]:
    """One line for each experiment, best A first."""
    groups: dict[str, list[tuple[Settings, Result]]] = defaultdict(list)
    for settings, result in runs:
        groups[experiment(settings)].append((settings, result))
    told = telling([of_one[0][0] for of_one in groups.values()])
    lines = [
        replace(_line(_one_of_each_seed(of_one), told), left_out=_contradicted(of_one))
        for of_one in groups.values()
    ]
    lines.sort(key=lambda line: -(line.A.mean or 0))
    return [_against(lines[0], line) for line in lines]


def experiment(settings: Settings) -> str:
    """What all runs of an experiment have in common."""
    return settings.model_dump_json(exclude=_SAME_EXPERIMENT)


def _against(best: Line, line: Line) -> Line:
    if line is best:
        return line
    return replace(line, A_less_best=paired_difference(line.A_by_seed, best.A_by_seed))


def _one_of_each_seed(runs: list[tuple[Settings, Result]]) -> list[tuple[Settings, Result]]:
    """A seed that was run twice gives the same result twice, which says nothing of the spread."""
    return list({settings.seed: (settings, result) for settings, result in runs}.values())


def _contradicted(runs: list[tuple[Settings, Result]]) -> int:
    """How many runs came to another result than the one of their seed that counts.

    Their data may be others that have the same name, or a GPU has rounded otherwise.
    """
    counting = {settings.seed: result for settings, result in _one_of_each_seed(runs)}
    others = (replace(result, seconds=counting[s.seed].seconds) for s, result in runs)
    return sum(counting[s.seed] != other for (s, _), other in zip(runs, others, strict=True))


def telling(settings: Sequence[Settings]) -> list[str]:
    """The settings to show: what names an experiment, and what differs for its own sake.

    What differs only because the protocols differ is said by the protocol's name.
    """
    always = ["dataset", "method", "memory", "protocol"]
    usual = {
        pair: make_settings({"protocol": pair[0], "dataset": pair[1]})
        for pair in {(s.protocol, s.dataset) for s in settings}
    }

    def default(s: Settings, name: str) -> Any:
        # A run's learning rate has been found from its optimiser.
        return getattr(usual[s.protocol, s.dataset], f"{s.optimizer}_lr" if name == "lr" else name)

    def own(name: str) -> set[Any]:
        values = ((getattr(s, name), default(s, name)) for s in settings)
        return {"usual" if value == usually else value for value, usually in values}

    rest = [n for n in Settings.model_fields if n not in {*always, *_SAME_EXPERIMENT}]
    return always + [name for name in rest if len(own(name)) > 1]


def _told(settings: Settings, name: str) -> Any:
    """A setting as it is told: who learns from streams has no dataset."""
    return "streams" if name == "dataset" and settings.streams else getattr(settings, name)


def _line(runs: list[tuple[Settings, Result]], told: list[str]) -> Line:
    settings = runs[0][0]
    results = [result for _, result in runs]
    measures = {"A": metrics.last_accuracy, "F": metrics.forgetting}

    def of_each(name: str, result: Result) -> list[float | None]:
        return [measures[name](metrics.to_its_end(matrix)) for matrix in result.accuracy]

    def clients(name: str) -> Spread:
        return over_clients([of_each(name, result) for result in results])

    def seeds(name: str) -> Spread:
        return over_seeds([getattr(result, name) for result in results])

    def spread(name: str) -> Spread:
        return clients(name) if settings.spread == "clients" and name in measures else seeds(name)

    return Line(
        settings={name: _told(settings, name) for name in told},
        seeds=tuple(sorted(s.seed for s, _ in runs)),
        A=spread("A"),
        F=spread("F"),
        global_A=spread("global_A"),
        global_F=spread("global_F"),
        A_by_seed={
            s.seed: [a for a in of_each("A", result) if a is not None] for s, result in runs
        },
        A_over_seeds=seeds("A"),
        F_over_seeds=seeds("F"),
        A_over_clients=clients("A"),
        F_over_clients=clients("F"),
    )
