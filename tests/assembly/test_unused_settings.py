"""Settings that were given and do nothing are pointed out, and nothing else is."""

import pytest

from ofcl import make_settings
from ofcl.assembly.unused_settings import find_unused
from ofcl.experiment import Run

TINY = {"dataset": "digits", "clients": 2, "tasks": 2, "limit": 1, "memory": 20}


@pytest.mark.parametrize(
    ("values", "unused", "wanted"),
    [
        ({"alpha": 0.1}, "alpha", "split = 'dirichlet'"),
        ({"mu": 0.5}, "mu", "aggregation = 'fedprox'"),
        ({"trim": 0.1, "aggregation": "median"}, "trim", "aggregation = 'trimmed-mean'"),
        ({"keep": "top", "method": "cbr"}, "keep", "methods that score, for example bi"),
        ({"noise_std": 0.3, "method": "bi"}, "noise_std", "vectors"),
        ({"memory": 50, "method": "none"}, "memory", "methods with a memory, for example cbr"),
    ],
)
def test_what_does_nothing_is_pointed_out(values, unused, wanted):
    made = make_settings(values)
    assert find_unused(made, made, "image") == [f"{unused} does nothing here: it is for {wanted}"]


@pytest.mark.parametrize("protocol", ["strong", "sound", "published"])
def test_what_a_protocol_sets_is_not(protocol):
    for method in ("none", "er", "bi", "mfcl"):
        made = make_settings({"protocol": protocol, "method": method})
        for kind in ("image", "vector"):
            assert find_unused(made, made, kind) == []


def test_what_acts_is_not():
    made = make_settings({"split": "dirichlet", "alpha": 0.1, "aggregation": "fedprox", "mu": 0.5,
                          "method": "bi", "keep": "weighted", "keep_beta": -1.0})  # fmt: skip
    assert find_unused(made, made, "image") == []


def test_a_run_says_so_when_it_begins(tmp_path):
    run = Run(make_settings({**TINY, "trim": 0.1}), out=tmp_path / "run")
    said = "trim does nothing here: it is for aggregation = 'trimmed-mean'"
    assert said in run.warnings
    for _ in run:
        run.save()
        break
    run.close()
    again = Run.resume(tmp_path / "run")
    assert said not in again.warnings
    again.close()
