"""The file of a sweep (TOML), and the folder in which the sweep lives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ofcl.data.named.catalogue import DATASETS
from ofcl.errors import OfclError
from ofcl.own_parts.permission import check_allowed
from ofcl.settings.files import load_settings
from ofcl.settings.layers import make_settings
from ofcl.settings.schema import Settings
from ofcl.storage.atomic_files import write_whole
from ofcl.sweep.space import Choices, Dimension, Value, read_space

OBJECTIVE = "validation_A"
PLAN = "plan.json"
_OPTIONS = ("trials", "seeds", "prune", "objective", "seed")


@dataclass(frozen=True)
class SweepPlan:
    """Everything that determines a sweep.

    Args:
        given: The ordinary settings, by name, as they were given.
        search: The table `[search]` as it was given.
        space: The settings that are searched.
        trials: How many trials the sweep has.
        seeds: The seeds of a trial's runs; its value is their mean.
        prune: Whether trials that lag behind are stopped early.
        seed: The seed of what Optuna draws.
    """

    given: dict[str, Any]
    search: dict[str, Any]
    space: list[Dimension]
    trials: int
    seeds: tuple[int, ...]
    prune: bool
    seed: int

    def settings(self, values: Mapping[str, Value], seed: int) -> Settings:
        """Makes the settings of a run.

        Args:
            values: The values of the searched settings; empty: the defaults.
            seed: The seed of the run.
        """
        return make_settings({**self.given, **values, "seed": seed})

    def to_json(self) -> dict[str, Any]:
        """Returns all that must stay the same while a sweep goes on; trials may be added."""
        return {"settings": self.given, "search": self.search, "seeds": list(self.seeds),
                "prune": self.prune, "seed": self.seed}  # fmt: skip


def read_plan(
    path: Path,
    further: Mapping[str, Any],
    trials: int | None = None,
    seeds: Iterable[int] | None = None,
    allow: Iterable[str] = (),
) -> SweepPlan:
    """Reads the file of a sweep.

    Args:
        path: The file.
        further: Settings from the command line, which override those of the file.
        trials: How many trials; None: as the file says.
        seeds: The seeds of each trial; None: as the file says.
        allow: Paths to code that the file names and that may be imported.

    Raises:
        OfclError: If the file is no sweep's, or something in it is not accepted.
    """
    values = load_settings(path)
    search, options = values.pop("search", None), values.pop("sweep", {})
    if not isinstance(search, dict):
        raise OfclError(f"'{path}' has no table [search] with the settings that are searched")
    _check_options(options, path)
    _check_code(values, search, allow, path)
    given = _whole_paths({**values, **further})
    if "seed" in given:
        raise OfclError("the seeds of a sweep are a list: --seeds 0,1, or seeds in [sweep]")
    made = make_settings(given)
    if made.streams or made.engine != "local":
        what = "streams come once" if made.streams else f"engine = '{made.engine}'"
        raise OfclError(f"a sweep makes many runs on one machine, with engine = 'local': {what}")
    wanted = trials if trials is not None else options.get("trials", 30)
    chosen = tuple(seeds if seeds is not None else options.get("seeds", [0]))
    if not isinstance(wanted, int) or wanted < 1:
        raise OfclError(f"trials = {wanted!r}; expected a number from 1")
    if not chosen or not all(isinstance(seed, int) and seed >= 0 for seed in chosen):
        raise OfclError(f"seeds = {list(chosen)}; expected a list of numbers: [0, 1]")
    space = read_space(search, given)
    prune, seed = bool(options.get("prune", True)), int(options.get("seed", 0))
    return SweepPlan(given, search, space, wanted, chosen, prune, seed)


def _check_options(options: Any, path: Path) -> None:
    """Raises an error if the table `[sweep]` has something unknown, or another objective.

    Args:
        options: The table.
        path: The file, for the message.
    """
    if not isinstance(options, dict) or not options.keys() <= {*_OPTIONS}:
        raise OfclError(f"[sweep] in '{path}' has {list(options)}; expected some of "
                        f"{', '.join(_OPTIONS)}")  # fmt: skip
    objective = options.get("objective", OBJECTIVE)
    if objective != OBJECTIVE:
        raise OfclError(
            f"objective = {objective!r}; a sweep is judged by {OBJECTIVE} alone: settings that "
            "were chosen on the test data would say nothing about new data"
        )


def _check_code(
    values: Mapping[str, Any], search: Mapping[str, Any], allow: Iterable[str], path: Path
) -> None:
    """Raises an error if the file names code that nobody has allowed.

    Args:
        values: The ordinary settings of the file.
        search: What is searched.
        allow: The paths to code that may be imported.
        path: The file, for the message.
    """
    check_allowed(values, allow, f"'{path}'")
    for name, choices in search.items():
        for choice in choices if isinstance(choices, list) else []:
            check_allowed({name: choice}, allow, f"'{path}'")


def _whole_paths(given: Mapping[str, Any]) -> dict[str, Any]:
    """Makes the path of a dataset absolute, so that the best settings can be used anywhere.

    Args:
        given: The settings by name.
    """
    data = given.get("dataset")
    if isinstance(data, str) and data not in DATASETS and Path(data).expanduser().exists():
        return {**given, "dataset": str(Path(data).expanduser().resolve())}
    return dict(given)


def check_folder(folder: Path, plan: SweepPlan) -> None:
    """Makes the folder of a new sweep, or checks that one goes on with the same plan.

    Args:
        folder: The folder.
        plan: The plan of the sweep.

    Raises:
        OfclError: If the folder has another sweep, or something else.
    """
    path = folder / PLAN
    wanted = json.loads(json.dumps(plan.to_json()))
    if path.exists():
        there = json.loads(path.read_text(encoding="utf-8"))
        if differing := [key for key in wanted if there.get(key) != wanted[key]]:
            key = differing[0]
            raise OfclError(
                f"'{folder}' has a sweep with {key} = {there.get(key)}, not {wanted[key]}; give "
                "another folder with --out"
            )
        return
    if folder.exists() and {p.name for p in folder.iterdir()} - {"lock", f"{PLAN}.partial"}:
        raise OfclError(f"'{folder}' is not empty and no sweep; give another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(wanted, indent=1) + "\n")


def shown_space(space: Iterable[Dimension]) -> list[list[str]]:
    """Lists the searched settings with their choices or ranges, as texts.

    Args:
        space: The settings.
    """
    return [
        [d.name, ", ".join(map(str, d.values))]
        if isinstance(d, Choices)
        else [d.name, f"{d.low:g} to {d.high:g}" + (", by logarithm" if d.log else "")]
        for d in space
    ]
