"""The paper's tables: what they ask for, how ours are judged, and the command that runs them."""

import csv
import dataclasses
import functools
import shutil
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import ofcl
from ofcl import OfclError, make_settings
from ofcl.cli.main import app
from ofcl.data.named.catalogue import DATASETS
from ofcl.report.spread import Spread
from ofcl.reproduce import paper, plan, verdicts
from ofcl.reproduce.paper import TABLES, Cell, choose, table
from ofcl.reproduce.toy import make_toy
from tests.support import commands


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("protocol", ["sound", "published"])
def test_every_cell_can_be_asked_for(tmp_path, name, protocol):
    cells = table(name)
    jobs = plan.jobs(cells, 2, protocol, tmp_path, {})
    assert len(jobs) == 2 * len(cells) > 0
    assert all(job.settings.dataset in DATASETS for job in jobs)
    assert {job.settings.seed for job in jobs} == {0, 1}
    if name not in ("rounds", "runtime"):
        assert all(cell.A is not None and cell.F is not None for cell in cells)
    else:
        assert all(cell.paper for cell in cells)


def test_the_paper_s_values_are_all_there():
    assert sum(len(table(name)) for name in ("table1", "table2", "table3", "table4")) == 150
    assert len(table("table6")) == 11
    (bi,) = choose("table1", "cifar10/M200/bi/bottom")
    assert (bi.A, bi.A_std, bi.F) == (24.89, bi.A_std, 35.77)
    top = choose("table1", "M200/bi/top")
    assert [cell.settings["keep"] for cell in top] == ["top"]
    assert [cell.paper for cell in choose("runtime", "bi")] == [660]


def test_what_cells_change():
    assert [c.settings["q"] for c in table("jump")] == [1, 3, 5, 10, 50]
    assert [c.settings["tasks"] for c in table("tasks")][:4] == [5, 10, 20, 25]
    counts = [len(c.settings.get("perturbations", range(12))) for c in table("augmentations")]
    assert counts == [8, 10, 12]
    averaging = [c.settings["aggregation"] for c in table("averaging")]
    assert averaging == ["fedavg", "weighted", "fedprox"]
    plain = {c.row: c.settings for c in table("table5") if c.dataset == "cifar10"}
    assert plain["FedProx"] == {"dataset": "cifar10", "method": "none", "aggregation": "fedprox"}


def test_cells_that_are_the_same_share_their_runs(tmp_path):
    def folders(name, only, protocol="published"):
        jobs = plan.jobs(choose(name, only), 1, protocol, tmp_path, {})
        return [str(job.directory.path.relative_to(tmp_path)) for job in jobs]

    usual = ["published/cifar10_bi_memory-200/seed0"]
    assert folders("table1", "M200/bi/bottom") == usual
    assert folders("burn-in", "BI, burn-in 30") == usual
    assert folders("averaging", "BI, averaging Weighted FedAvg") == usual
    assert folders("averaging", "BI, averaging FedAvg", "sound") == [
        "sound/cifar10_bi_memory-200/seed0"
    ]
    assert folders("burn-in", "BI, burn-in 10") == [
        "published/cifar10_bi_burn_in-10_memory-200/seed0"
    ]


def test_tables_and_cells_that_there_are_not():
    with pytest.raises(OfclError, match="unknown table 'table7'"):
        table("table7")
    with pytest.raises(OfclError, match="no cell of table1 is 'cifar10/M201'"):
        choose("table1", "cifar10/M201")


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


# The command, on a paper that has one small table


def small_paper():
    """Of the paper, tables of the embedded digits."""
    values = (
        "dataset,memory,method,keep,A,A_std,F,F_std\n"
        "digits,20,ER,,50.0,5.0,20.0,5.0\ndigits,20,BI,bottom,50.0,5.0,20.0,5.0\n"
        "cifar100,20,ER,,50.0,5.0,20.0,5.0\n"
    )
    paper._rows = lambda file: list(csv.DictReader(values.splitlines()))
    paper.TABLES["table1"] = paper._memories("digits")
    paper.TABLES["table2"] = paper._memories("digits", "cifar100")


command = functools.partial(commands.ofcl, prepare=small_paper)


FEW = ["--seeds", 2, "--set", "model=mlp", "--set", "hidden=16", "--set", "limit=6", "--set",
       "clients=2", "--set", "burn_in=1", "-q"]  # fmt: skip


def test_a_table_is_run_and_not_run_again(tmp_path):
    code, out, err = command("reproduce", "table1", *FEW, cwd=tmp_path)
    assert code == 0, err
    results = sorted((tmp_path / "reproduced").rglob("result.json"))
    assert len(results) == 4
    assert "50.00 ± 5.00" in out
    for suffix in (".md", ".tex", ".csv"):
        assert (tmp_path / "reproduced" / f"table1-published{suffix}").stat().st_size > 100
    before = [path.stat().st_mtime_ns for path in results]
    code, again, _ = command("reproduce", "table1", *FEW, cwd=tmp_path)
    assert (code, again) == (0, out)
    assert [path.stat().st_mtime_ns for path in results] == before


def test_what_would_be_run_and_how_long(tmp_path):
    code, out, err = command("reproduce", "table1", *FEW, "--dry-run", cwd=tmp_path)
    assert code == 0, err
    assert "4 runs, 4 of them missing: about 0 h" in out
    assert not (tmp_path / "reproduced").exists()
    command("reproduce", "table1", *FEW, "--only", "er", cwd=tmp_path)
    code, out, _ = command("reproduce", "table1", *FEW, "--dry-run", cwd=tmp_path)
    assert "4 runs, 2 of them missing" in out


def test_a_dataset_that_is_not_there_leaves_the_others(tmp_path):
    code, out, err = command("reproduce", "table2", *FEW, "--data-root", "nowhere",
                             cwd=tmp_path)  # fmt: skip
    assert code == 0, err
    assert "2 runs are left out" in err
    assert "not run" in out


def test_killed_it_goes_on_where_it_was(tmp_path):
    arguments = ["reproduce", "table1", *FEW[:-1], "--set", "checkpoint_every=4", "-q"]
    process = commands.Command(*arguments, cwd=tmp_path, prepare=small_paper)
    first = tmp_path / "reproduced" / "published" / "digits_er_memory-20" / "seed0"
    until = time.monotonic() + 60
    while not (first / "result.json").exists() and time.monotonic() < until:
        time.sleep(0.005)
    process.kill()
    done = {p: p.stat().st_mtime_ns for p in (tmp_path / "reproduced").rglob("result.json")}
    assert 1 <= len(done) < 4
    code, out, err = command(*arguments, cwd=tmp_path)
    assert code == 0, err
    assert all(path.stat().st_mtime_ns == then for path, then in done.items())
    whole = tmp_path / "whole"
    code, _, err = command(*arguments, "--out", whole, cwd=tmp_path)
    assert code == 0, err
    tables = [(f / "table1-published.csv").read_text() for f in (whole, tmp_path / "reproduced")]
    assert tables[0] == tables[1]


def test_settings_of_a_folder_stay_the_same(tmp_path):
    command("reproduce", "table1", *FEW, "--only", "er", cwd=tmp_path)
    code, _, err = command("reproduce", "table1", *FEW, "--set", "q=2", cwd=tmp_path)
    assert code == 2
    assert "was made with q = 5, not 2" in err
    assert make_settings({}).q == 5


def test_figure_2_dense_data_make_bregman_information_small_where_confidence_is_low():
    for seed in (0, 1):
        toy = make_toy(seed)
        boundary = min(np.linspace(-1, 1, 21), key=lambda x: toy.at("confidence", x, 0))
        assert toy.at("confidence", boundary, 0) < 0.8
        far = max(toy.at("BI of an ensemble", x, y) for x in np.linspace(-5, 5, 41)
                  for y in (-5.5, 5.5))  # fmt: skip
        assert far > 10 * toy.at("BI of an ensemble", boundary, 0)
        assert toy.at("confidence", -5, 0) > 0.99


def test_figure_2_is_drawn(tmp_path):
    ran = CliRunner().invoke(app, ["reproduce", "figure2", "--out", str(tmp_path / "a")])
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "a" / "figure2.pdf").read_bytes().startswith(b"%PDF-")
    assert b"BI of an ensemble" in (tmp_path / "a" / "figure2.svg").read_bytes()


def test_the_files_have_the_whole_table_whatever_is_run_now(tmp_path):
    def rows():
        lines = (tmp_path / "reproduced" / "table1-published.csv").read_text().splitlines()
        return [(line.split(",")[1], line.split(",")[-1]) for line in lines[1:]]

    command("reproduce", "table1", *FEW, "--only", "er", cwd=tmp_path)
    assert rows()[1] == ("BI bottom M = 20", "not run")
    code, out, _ = command("reproduce", "table1", *FEW, "--only", "bi", cwd=tmp_path)
    assert "ER M" not in out
    assert [verdict for _, verdict in rows()].count("not run") == 0
    code, _, err = command("reproduce", "table1", *FEW, "--only", "bi", "--set", "q=2", "--seeds",
                           1, "--out", "other", cwd=tmp_path)  # fmt: skip
    shutil.copytree(tmp_path / "other" / "published", tmp_path / "reproduced" / "published",
                    dirs_exist_ok=True)  # fmt: skip
    code, _, err = command("reproduce", "table1", *FEW, "--only", "er", cwd=tmp_path)
    assert code == 0
    assert "not in the files" in err
    assert "was made with q = 2, not 5" in err
