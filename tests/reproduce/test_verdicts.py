"""Our results beside the paper's."""

import csv
import dataclasses

import pytest

import ofcl
from ofcl.report.spread import Spread
from ofcl.reproduce import verdicts
from ofcl.reproduce.paper import Cell


def judged(cell, A, F):
    verdict = verdicts.judge(cell, [], "seeds", 2)
    return dataclasses.replace(verdict, seeds=3, A=Spread(A, 1.0), F=Spread(F, 1.0))


@pytest.mark.parametrize(
    ("A", "F", "word"),
    [(21.9, 30.0, "agrees"), (20.0, 33.0, "near"), (20.0, 41.0, "differs"), (9.9, 30, "differs")],
)
def test_verdicts_by_hand(A, F, word):
    cell = Cell("cifar10", "BI", 20.0, 30.0, A_std=1.0, F_std=1.0, settings={"method": "bi"})
    verdict = judged(cell, A, F)
    assert verdict.off("A") == pytest.approx(A - 20)
    assert verdict.verdict == word


def test_a_cell_that_was_not_run_and_one_without_a_spread():
    cell = Cell("cifar10", "BI", 20.0, 30.0, settings={"method": "bi"})
    assert verdicts.judge(cell, [], "seeds", 2).verdict == "not run"
    assert judged(cell, 20.0, 30.0).verdict == "–"


def test_results_become_spreads(blobs):
    results = [ofcl.run(blobs, method="er", memory=12, tasks=3, clients=2, batch_size=5, burn_in=3,
                        hidden=16, seed=seed) for seed in (0, 1)]  # fmt: skip
    cell = Cell("blobs", "ER", 20.0, 30.0, A_std=1.0, F_std=1.0, settings={"method": "er"})
    over = {spread: verdicts.judge(cell, results, spread, 3) for spread in ("seeds", "clients")}
    mean = (results[0].A + results[1].A) / 2
    assert over["seeds"].A.mean == pytest.approx(mean) == pytest.approx(over["clients"].A.mean)
    assert over["seeds"].seeds == 2
    assert over["seeds"].value.mean == pytest.approx(sum(r.rounds for r in results) / 6)


def test_the_three_forms_of_a_table():
    cell = Cell("cifar10", "BI_x M = 200", 20.0, 30.0, 1.0, 2.0, {"method": "bi"})
    rows = [judged(cell, 21.0, 36.0)]
    assert "| 20.00 ± 1.00 | 21.00 ± 1.00 | +1.0 σ |" in verdicts.as_markdown(rows)
    latex = verdicts.as_latex(rows)
    assert r"BI\_x" in latex
    assert r"21.00 $\pm$ 1.00" in latex
    (line,) = csv.DictReader(verdicts.as_csv(rows).splitlines())
    assert (float(line["A"]), float(line["paper_F"]), line["verdict"]) == (21.0, 30.0, "near")
