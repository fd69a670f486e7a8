"""The blocks of the page, one a dataset: its table of experiments, its runs, its settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from ofcl.report.comparison import ExperimentLine
from ofcl.report.drawn import Drawn
from ofcl.report.recorded_runs import Experiment, RunView
from ofcl.report.sections import RunPart, run_part
from ofcl.report.settings_tables import common_settings, settings_that_differ
from ofcl.report.side_by_side import side_by_side


@dataclass(frozen=True)
class ExperimentPart:
    """An experiment as the page shows it."""

    name: str  # that no other experiment of the page has
    within: str  # that no other experiment of its dataset has
    anchor: str
    line: ExperimentLine | None  # None: no run is finished
    state: str  # of the runs that are not finished; empty: all are
    runs: list[RunPart]


@dataclass(frozen=True)
class Block:
    """Everything that the page shows of the experiments of one dataset."""

    dataset: str
    anchor: str
    experiments: list[ExperimentPart]  # best A first, those without results last
    compared: list[Drawn]
    differences: list[list[str]]  # setting, value, experiments
    settings: list[list[str]]  # that all experiments of the dataset have: setting, value

    @property
    def lines(self) -> list[ExperimentLine]:
        """The results of the experiments that have some."""
        return [e.line for e in self.experiments if e.line is not None]


def slug(text: str) -> str:
    """Turns a name into one for files and addresses: lower case, hyphens for other characters.

    Args:
        text: The name.

    >>> slug("bi, memory 500")
    'bi-memory-500'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def make_blocks(
    experiments: Sequence[Experiment],
    lines: Iterable[ExperimentLine],
    samples: int,
    most: int,
) -> list[Block]:
    """Makes the blocks of the page.

    Args:
        experiments: All experiments.
        lines: The results of those that have some, best first.
        samples: How many samples of each memory are shown, at most.
        most: How many runs are shown with figures and memories, at most: the best experiments of
            each dataset.
    """
    results = {(line.dataset, line.name): line for line in lines}
    order = {key: place for place, key in enumerate(results)}
    blocks: dict[str, list[Experiment]] = {}
    for e in sorted(experiments, key=lambda e: order.get(_key(e), len(order))):
        blocks.setdefault(e.named.dataset, []).append(e)
    drawn = runs_to_draw(blocks.values(), most)
    anchors = _anchors([e.name for some in blocks.values() for e in some])
    return [
        Block(
            dataset=name,
            anchor=f"dataset-{slug(name)}",
            experiments=[
                _part(e, anchors[e.name], results.get(_key(e)), samples, drawn) for e in some
            ],
            compared=side_by_side(some, f"{slug(name)}-" if len(blocks) > 1 else ""),
            differences=settings_that_differ(some),
            settings=common_settings(some),
        )
        for name, some in sorted(blocks.items())
    ]


def runs_to_draw(blocks: Iterable[Sequence[Experiment]], most: int) -> set[Path]:
    """Chooses the runs that are shown with figures and memories.

    Args:
        blocks: The experiments of each dataset, best first.
        most: How many runs are chosen, at most.

    Returns:
        Their paths: a run of the best experiment of each dataset, then of the second and so on,
        then the other seeds.
    """
    turns = chain.from_iterable(zip_longest(*blocks))
    experiments = [experiment for experiment in turns if experiment is not None]
    firsts = [experiment.runs[0].path for experiment in experiments]
    others = [run.path for experiment in experiments for run in experiment.runs[1:]]
    return set([*firsts, *others][:most])


def _key(experiment: Experiment) -> tuple[str, str]:
    """Returns the dataset and the name of an experiment, as its line of results has them."""
    return experiment.named.dataset, experiment.named.within


def _anchors(names: Iterable[str]) -> dict[str, str]:
    """Returns an address within the page for each name; those that coincide are numbered."""
    count, anchors = Counter[str](), {}
    for name in names:
        start = slug(name)
        count[start] += 1
        anchors[name] = start if count[start] == 1 else f"{start}-{count[start]}"
    return anchors


def _part(
    experiment: Experiment,
    anchor: str,
    line: ExperimentLine | None,
    samples: int,
    drawn: set[Path],
) -> ExperimentPart:
    """Makes the part of the page about one experiment.

    Args:
        experiment: The experiment with its runs.
        anchor: Its address within the page.
        line: Its results; None: it has none yet.
        samples: How many samples of each memory are shown, at most.
        drawn: The paths of the runs that are shown with figures and memories.
    """
    seeds = Counter(run.settings.seed for run in experiment.runs)

    def name(run: RunView) -> str:
        """Returns a run's address: experiment, seed and, if seeds repeat, its folder."""
        again = f"-{slug(run.path.name)}" if seeds[run.settings.seed] > 1 else ""
        return f"{anchor}-seed-{run.settings.seed}{again}"

    return ExperimentPart(
        name=experiment.name,
        within=experiment.named.within,
        anchor=anchor,
        line=line,
        state=_state_of_all(experiment.runs),
        runs=[run_part(name(r), r, samples, r.path in drawn) for r in experiment.runs],
    )


def _state_of_all(runs: Sequence[RunView]) -> str:
    """Says how many runs are not finished, of a single one how far it is; empty if all are."""
    open_ = [run for run in runs if not run.finished]
    if not open_:
        return ""
    return state(open_[0]) if len(runs) == 1 else f"{len(open_)} of {len(runs)} runs not finished"


def state(run: RunView) -> str:
    """Says in words how far a run has come, such as `finished`.

    Args:
        run: The run.
    """
    if run.finished:
        return "finished"
    learned = run.events_of("learned")
    if not learned:
        return "just begun"
    batches = sum(event["batches"] for event in learned)
    task = max(event["task"] for event in learned) + 1
    last = run.directory.earlier_tasks() + run.settings.tasks_in_stream
    tasks = "" if run.settings.streams else f" of {last}"
    return f"not finished: task {task}{tasks}, {batches} mini-batches"
