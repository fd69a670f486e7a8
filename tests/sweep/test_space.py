"""The settings that a sweep searches, and the sweep's file."""

import pytest

from ofcl import OfclError
from ofcl.sweep.space import Choices, Range, read_space
from ofcl.sweep.sweep_file import check_folder, read_plan


def test_ranges_and_choices():
    table = {"lr": {"low": 1, "high": 2}, "steps": {"low": 1, "high": 4, "log": True},
             "memory": [100, 200]}  # fmt: skip
    assert read_space(table, {"dataset": "digits"}) == [
        Range("lr", 1.0, 2.0, whole=False),
        Range("steps", 1, 4, whole=True, log=True),
        Choices("memory", (100, 200)),
    ]


@pytest.mark.parametrize(("table", "words"), [
    ({}, "is empty"),
    ({"larning": [1, 2]}, "unknown setting 'larning'"),
    ({"tasks": [2, 5]}, "could not be compared"),
    ({"lr": 0.1}, "One value alone is an ordinary setting"),
    ({"lr": [0.1]}, "expected two or more values"),
    ({"lr": {"low": 0.1}}, "expected low, high and maybe log"),
    ({"lr": {"low": 0.2, "high": 0.1}}, "low = 0.2 is not below high = 0.1"),
    ({"lr": {"low": 0, "high": 1, "log": True}}, "needs low above 0"),
    ({"steps": {"low": 1.0, "high": 4.5}}, "whole numbers are expected"),
    ({"loss": {"low": 1, "high": 2}}, "its values are no numbers"),
    ({"loss": ["ce", "cee"]}, "search.loss: unknown loss 'cee'"),
    ({"steps": {"low": 0, "high": 4}}, "search.steps: steps = 0"),
])  # fmt: skip
def test_mistakes_are_refused_before_anything_runs(table, words):
    with pytest.raises(OfclError, match=words.replace("(", r"\(")):
        read_space(table, {"dataset": "digits"})


def write(path, text):
    path.write_text(text)
    return path


def test_the_objective_is_never_the_test(tmp_path):
    file = write(tmp_path / "s.toml", '[search]\nsteps=[1,2]\n[sweep]\nobjective="A"\n')
    with pytest.raises(OfclError, match="judged by validation_A alone"):
        read_plan(file, {})


def test_code_in_a_file_must_be_allowed(tmp_path):
    file = write(tmp_path / "s.toml", '[search]\nloss=["ce","mine:loss"]\n')
    with pytest.raises(OfclError, match="--allow mine:loss"):
        read_plan(file, {})
    assert read_plan(file, {}, allow=["mine:loss"]).space == [Choices("loss", ("ce", "mine:loss"))]


def test_a_folder_has_one_sweep_to_which_trials_may_be_added(tmp_path):
    file = write(tmp_path / "s.toml", "[search]\nsteps=[1,2]\n[sweep]\ntrials=3\nseeds=[4]\n")
    plan = read_plan(file, {})
    assert (plan.trials, plan.seeds) == (3, (4,))
    check_folder(tmp_path / "out", plan)
    check_folder(tmp_path / "out", read_plan(file, {}, trials=9))
    with pytest.raises(OfclError, match=r"has a sweep with seeds = \[4\], not \[4, 5\]"):
        check_folder(tmp_path / "out", read_plan(file, {}, seeds=[4, 5]))
    with pytest.raises(OfclError, match="no sweep"):
        check_folder(tmp_path, plan)
