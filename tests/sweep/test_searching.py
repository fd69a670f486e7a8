"""The loop of a sweep, with a stand-in for the workers: a run's result is a formula."""

import json
import threading

import pytest

from ofcl import OfclError
from ofcl.evaluation.results import Result
from ofcl.jobs.work import Ended, Progress
from ofcl.settings.files import load_settings
from ofcl.settings.layers import make_settings
from ofcl.sweep.findings import find, save_best
from ofcl.sweep.searching import Search, trial_folder
from ofcl.sweep.space import Range
from ofcl.sweep.study import Trials
from ofcl.sweep.sweep_file import SweepPlan
from ofcl.sweep.sweep_page import page

TASKS = 2


class Killed(BaseException):
    """Stands for kill -9."""


class FakePool:
    """Makes a run at once: its validation accuracy is highest where lr is 0.01."""

    def __init__(self, size=2, kill_after=None, wrong=()):
        self._size, self._kill_after, self._wrong = size, kill_after, wrong
        self.busy, self.made, self._reports, self._stopped = [], [], [], set()

    @property
    def free(self):
        return len(self.busy) < self._size

    def start(self, work):
        self.busy.append(work)
        self.made.append(work.path)
        value = 90 - 1000 * abs((work.settings.lr or 0.02) - 0.01)
        reports = [Progress(5, 10, n, TASKS, n + 1, value / 2) for n in range(TASKS)]
        self._reports.append((work, value, reports))

    def stop(self, work=None):
        self._stopped |= {work} if work else set(self.busy)

    def reports(self, timeout):
        if self._kill_after is not None and len(self.made) >= self._kill_after:
            raise Killed
        work, value, reports = self._reports[0]
        for report in reports:
            if work not in self._stopped:
                yield work, report
        del self._reports[0]
        self.busy.remove(work)
        if len(self.made) in self._wrong:
            yield work, Ended("failed", "out of luck")
        elif work in self._stopped:
            yield work, Ended("stopped")
        else:
            finish(work.path, value)
            yield work, Ended("finished")


def finish(path, value):
    """Writes what a finished run leaves."""
    path.mkdir(parents=True)
    (path / "settings.toml").touch()
    result = Result(1, 1, 1, 1, 1, value, 1, 1, 1, 1, 1, 1.0, [], [])
    (path / "result.json").write_text(json.dumps(result.to_json()))


def plan_of(trials=7, prune=True, seeds=(0, 1)):
    space = [Range("lr", 1e-4, 1e-1, whole=False, log=True)]
    search = {"lr": {"low": 1e-4, "high": 1e-1, "log": True}}
    return SweepPlan({"dataset": "digits"}, search, space, trials, seeds, prune, 0)


def open_trials(tmp_path, plan):
    return Trials(tmp_path / "sweep.db", plan.space, plan.seed, plan.prune)


def search(tmp_path, plan, pool, stop=None):
    trials = open_trials(tmp_path, plan)
    for _ in Search(plan, tmp_path, trials, pool, stop or threading.Event()):
        pass
    return trials


def test_killed_twice_it_ends_with_all_trials_none_counted_twice(tmp_path):
    plan, made = plan_of(prune=False), []
    for kill_after in (6, 5, None):
        pool = FakePool(kill_after=kill_after)
        try:
            search(tmp_path, plan, pool)
        except Killed:
            assert kill_after is not None
        made.append(pool.made)
    records = open_trials(tmp_path, plan).records()
    assert [record.state for record in records] == ["complete"] * 7
    for record in records:
        runs = [json.loads((trial_folder(tmp_path, record.number) / f"seed{n}" /
                            "result.json").read_text()) for n in (0, 1)]  # fmt: skip
        assert record.value == pytest.approx(sum(r["validation_A"] for r in runs) / 2)
        assert record.value == pytest.approx(90 - 1000 * abs(record.values["lr"] - 0.01))
    # Only what was running when it was killed is begun again.
    again = {*made[0]} & {*made[1]} | {*made[1]} & {*made[2]}
    assert len(again) <= 4
    assert sum(map(len, made)) == 8 * 2 + len(again)


def test_the_same_seed_searches_the_same_values_killed_or_not(tmp_path):
    plan = plan_of(trials=12, prune=False, seeds=(0,))
    with pytest.raises(Killed):
        search(tmp_path, plan, FakePool(size=1, kill_after=6))
    (tmp_path / "whole").mkdir()
    found = [search(folder, plan, FakePool(size=1)).records()
             for folder in (tmp_path, tmp_path / "whole")]  # fmt: skip
    assert found[0] == [r.__class__(**{**vars(r), "curve": s.curve}) for r, s in
                        zip(found[1], found[0], strict=True)]  # fmt: skip


def test_trials_that_lag_behind_are_stopped_and_failures_are_told(tmp_path):
    plan = plan_of(trials=14)
    trials = search(tmp_path, plan, FakePool(size=1, wrong=(3,)))
    states = [record.state for record in trials.records()]
    assert len(states) == 14
    assert states[0] == "failed"  # the third run, after two of the default
    assert trials.records()[0].reason == "out of luck"
    assert states.count("pruned") > 1
    findings = find(plan, tmp_path, trials.records())
    assert findings.default == 80  # lr = 0.02
    assert findings.best.value == max(r.value for r in trials.records() if r.value is not None)
    assert "beats the default, 80.00, +" in findings.verdict()
    best = load_settings(save_best(plan, tmp_path, findings))
    assert make_settings(best).lr == findings.best.values["lr"]
    html = page(plan, findings, trials.importances())
    assert "Trials by lr" in html
    assert "How much each setting matters" in html
    assert "out of luck" in html


def test_a_sweep_that_does_not_beat_the_default_says_so(tmp_path):
    plan = plan_of(trials=3)
    trials = search(tmp_path, plan, FakePool())
    for seed in (0, 1):
        path = tmp_path / "default" / f"seed{seed}" / "result.json"
        path.write_text(path.read_text().replace('"validation_A": 80.0', '"validation_A": 99.0'))
    assert "does not beat the default, 99.00" in find(plan, tmp_path, trials.records()).verdict()


def test_stopped_by_ctrl_c_trials_are_gone_on_with(tmp_path):
    plan, stop = plan_of(trials=4), threading.Event()
    trials = open_trials(tmp_path, plan)
    for name, _, report in Search(plan, tmp_path, trials, FakePool(), stop):
        if name.startswith("trial 0") and isinstance(report, Progress):
            stop.set()
    assert {record.state for record in trials.records()} == {"running"}
    assert len(search(tmp_path, plan, FakePool()).records()) == 4


def test_without_validation_there_is_nothing_to_judge_by(tmp_path):
    finish(tmp_path / "default" / "seed0", None)
    with pytest.raises(OfclError, match="nothing is held out for validation"):
        search(tmp_path, plan_of(), FakePool())
