"""Experiments beside each other, and ER among them."""

import pytest

import ofcl
from ofcl.report.recorded_runs import read_experiments
from ofcl.report.side_by_side import forgetting_against_er
from tests.conftest import TINY
from tests.support.report_pages import METHODS, result_of

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once


def test_forgetting_against_er(demo):
    experiments = {e.name: e for e in read_experiments([demo])}
    assert set(experiments) == set(METHODS)
    F = {name: result_of(demo / name)["F"] for name in METHODS}
    found = forgetting_against_er(experiments["none"], list(experiments.values()))
    assert found == pytest.approx(100 * (F["er"] - F["none"]) / F["er"])
    assert forgetting_against_er(experiments["er"], list(experiments.values())) is None


def test_forgetting_is_compared_with_an_er_that_differs_in_the_method_alone(tmp_path, blobs):
    for clients, tasks in ((2, 3), (3, 2)):
        for method in ("er", "cbr"):
            out = tmp_path / f"{method}-{clients}"
            ofcl.run(blobs, out=out, **{**TINY, "method": method, "clients": clients,
                                        "tasks": tasks})  # fmt: skip
    experiments = read_experiments([tmp_path])
    F = {path.name: result_of(path)["F"] for path in tmp_path.iterdir()}
    for experiment in experiments:
        made = experiment.runs[0].settings
        found = forgetting_against_er(experiment, experiments)
        er, own = F[f"er-{made.clients}"], F[f"{made.method}-{made.clients}"]
        wanted = 100 * (er - own) / er if made.method == "cbr" and er > 0 else None
        assert found == (wanted if wanted is None else pytest.approx(wanted))
