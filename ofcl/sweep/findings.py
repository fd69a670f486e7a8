"""The outcome of a sweep: the best trial beside the default, and its settings as a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ofcl.evaluation.metrics import mean
from ofcl.report.significance import Difference, paired_difference
from ofcl.settings.files import to_toml
from ofcl.storage.atomic_files import write_whole
from ofcl.sweep.searching import DEFAULT, read_value, trial_folder
from ofcl.sweep.study import TrialRecord
from ofcl.sweep.sweep_file import OBJECTIVE, SweepPlan

BEST = "best.toml"


@dataclass(frozen=True)
class Findings:
    """The outcome of a sweep so far.

    Args:
        records: All trials.
        best: The complete trial with the largest value; None: there is none.
        default: The value of the default; None: it was not run to its end.
        gain: The best trial's value less the default's, over seeds; None: one is missing, or they
            have fewer than two seeds.
    """

    records: list[TrialRecord]
    best: TrialRecord | None
    default: float | None
    gain: Difference | None

    @property
    def counts(self) -> dict[str, int]:
        """The number of trials in each state."""
        return dict(Counter(record.state for record in self.records))

    def verdict(self) -> str:
        """Says whether the best trial beats the default on validation."""
        if self.best is None or self.best.value is None:
            return "no trial is complete"
        told = f"{OBJECTIVE} {self.best.value:.2f} (trial {self.best.number})"
        if self.default is None:
            return f"the best trial has {told}; there is no default to compare with"
        interval = f", {self.gain} over seeds" if self.gain is not None else ""
        if self.best.value > self.default:
            return f"the best trial has {told} and beats the default, {self.default:.2f}{interval}"
        return f"the best trial has {told} and does not beat the default, {self.default:.2f}"


def find(plan: SweepPlan, folder: Path, records: list[TrialRecord]) -> Findings:
    """Reads the outcome of a sweep so far.

    Args:
        plan: The plan of the sweep.
        folder: Its folder.
        records: All its trials.
    """
    complete = [record for record in records if record.value is not None]
    best = max(complete, key=lambda record: record.value or 0.0, default=None)
    usual = _by_seed(plan, folder / DEFAULT)
    whole = len(usual) == len(plan.seeds)
    gain = None
    if best is not None and whole:
        found = _by_seed(plan, trial_folder(folder, best.number))
        gain = paired_difference(_lists(found), _lists(usual))
    return Findings(records, best, mean(usual.values()) if whole else None, gain)


def _by_seed(plan: SweepPlan, folder: Path) -> dict[int, float]:
    """Reads the validation accuracy of each run of a trial that is finished, by seed."""
    values = {seed: read_value(folder / f"seed{seed}") for seed in plan.seeds}
    return {seed: value for seed, value in values.items() if value is not None}


def _lists(values: Mapping[int, float]) -> dict[int, list[float]]:
    """Puts each value into a list of its own."""
    return {seed: [value] for seed, value in values.items()}


def save_best(plan: SweepPlan, folder: Path, findings: Findings) -> Path | None:
    """Writes the settings of the best trial as a file that `ofcl run` takes.

    Args:
        plan: The plan of the sweep.
        folder: Its folder.
        findings: Its outcome.

    Returns:
        The path of the file; None: no trial is complete.
    """
    best = findings.best
    if best is None:
        return None
    seeds = ", ".join(map(str, plan.seeds))
    about = f"# Trial {best.number} of a sweep: {OBJECTIVE} {best.value:.2f}, seeds {seeds}\n"
    path = folder / BEST
    write_whole(path, about + to_toml({**plan.given, **best.values}))
    return path
