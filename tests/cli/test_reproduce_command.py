"""`ofcl reproduce`, on a paper that has one small table."""

import csv
import functools
import shutil
import time

from ofcl import make_settings
from ofcl.reproduce import paper
from tests.support import commands

pytestmark = commands.in_one_process


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
       "clients=2", "--set", "burn_in=1", "--set", "steps=1", "--set", "noise_copies=2",
       "-q"]  # fmt: skip


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
    while not (first / "result.json").exists():
        assert process.running, process.wait()
        assert time.monotonic() < until
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
