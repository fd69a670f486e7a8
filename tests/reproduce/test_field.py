"""The field: which runs it has, and its tables and pages from finished runs."""

import dataclasses

import pytest

from ofcl import OfclError
from ofcl.evaluation.results import Result
from ofcl.methods import METHODS
from ofcl.reproduce.field import MEMORY, contests, field_cells, read_places
from ofcl.reproduce.field_page import as_csv, as_markdown, overall_rows, save_pages
from ofcl.reproduce.plan import batches
from ofcl.reproduce.ranking import ranks
from ofcl.reproduce.standings import make_table

PROTOCOLS = ("sound", "strong")


def suite(out, only=None, seeds=2, places=None):
    return contests(seeds, PROTOCOLS, out, {}, places or {}, only)


def test_every_method_is_in_the_field_by_itself(tmp_path, monkeypatch):
    whole = suite(tmp_path)
    assert len(whole) == 2 * len(MEMORY)
    assert sum(len(contest.jobs) for contest in whole) == 2 * 2 * len(MEMORY) * len(METHODS)
    assert len({job.directory.path for c in whole for job in c.jobs}) == 16 * len(METHODS)
    monkeypatch.setitem(METHODS, "newest", METHODS["er"])
    assert "newest" in [cell.row for cell in field_cells("cifar10")]


def test_some_of_it(tmp_path):
    chosen = suite(tmp_path, "fashion-mini,kc-cell/er,bi/sound")
    assert [(c.dataset, c.protocol) for c in chosen] == [
        ("fashion-mini", "sound"), ("kc-cell", "sound")
    ]  # fmt: skip
    assert {job.settings.method for c in chosen for job in c.jobs} == {"er", "bi"}
    assert {job.settings.tasks for job in chosen[1].jobs} == {4}  # as the paper sets it
    with pytest.raises(OfclError, match="nothing of the field is 'mnist'"):
        suite(tmp_path, "mnist")


def test_every_dataset_of_the_suite_is_large_enough_for_rounds(tmp_path):
    for contest in suite(tmp_path, "er", seeds=1):
        settings = contest.jobs[0].settings
        each = batches(contest.dataset, settings) / settings.clients / settings.tasks
        assert settings.burn_in + settings.q <= each, contest.title
    given = contests(1, ("sound",), tmp_path, {"burn_in": 7}, {}, "fashion-mini/er")
    assert given[0].jobs[0].settings.burn_in == 7


def test_datasets_may_lie_elsewhere(tmp_path):
    file = tmp_path / "cells.npz"
    file.touch()
    places = read_places([f"kc-cell={file}", f"cifar10={tmp_path}"])
    chosen = suite(tmp_path, "cifar10,kc-cell/er/sound", places=places)
    first, second = (contest.jobs[0].settings for contest in chosen)
    assert (first.dataset, first.data_root) == ("cifar10", str(tmp_path))
    assert [c.jobs[0].cell.A is None for c in chosen] == [False, True]
    assert (second.dataset, second.tasks, second.class_order) == (str(file), 4, "size")
    for wrong in ("mnist=x", "cifar10", f"cifar10={tmp_path / 'nowhere'}"):
        with pytest.raises(OfclError, match="--data"):
            read_places([wrong])


def test_the_papers_figures_stand_beside_ours():
    cells = {cell.row: cell for cell in field_cells("cifar10")}
    assert (cells["er"].A, cells["er"].F_std) == (20.74, 3.95)
    assert (cells["bi"].A, cells["none"].A, cells["mfcl"].A) == (24.89, 16.90, 16.42)
    assert cells["loss"].A is None
    assert {cell.A for cell in field_cells("fashion-mini")} == {None}


def finish(job, A, F=10.0, seconds=2.0):
    """Leaves what a finished run leaves: two tasks, two clients."""
    job.directory.create(job.settings, ("a",), {}, {})
    matrix = [[90.0, None], [A - 5, A + 5]]
    result = Result(A, F, A + 1, F, A, A, A, 1.0, 3, 4_000_000, 2_000_000, seconds,
                    [matrix, matrix], [])  # fmt: skip
    job.directory.save_result(result, None)


@pytest.fixture
def tables(tmp_path):
    chosen = suite(tmp_path, "fashion-mini,cifar10/er,bi,mfcl,none")
    values = {"bi": (50.0, 52.0), "er": (40.0, 42.0), "none": (20.0, 21.0)}
    for contest in chosen[:3]:
        for job in contest.jobs:
            if job.cell.row in values:
                finish(job, values[job.cell.row][job.settings.seed], seconds=job.settings.seed + 1)
    return [make_table(contest, {"mfcl": "it makes images"}) for contest in chosen]


def test_methods_are_ranked_with_their_costs(tables):
    table = tables[0]
    assert [s.method for s in table.standings] == ["bi", "er", "none"]
    assert [str(s.rank) for s in table.standings] == ["1 [1, 1]", "2 [2, 2]", "3 [3, 3]"]
    best, second, _ = table.standings
    assert best.less_best is None
    assert str(second.less_best) == "-10.0 [-10.0, -10.0]"
    assert best.over_seeds("A").mean == 51
    assert best.over_seeds("plasticity").mean == pytest.approx((90 + 56) / 2)
    assert best.over_seeds("bytes").mean == 6_000_000
    assert tables[3].missing == ["none", "er", "bi"]
    assert tables[3].does_not_apply == {"mfcl": "it makes images"}
    assert [row[:2] for row in overall_rows(tables)] == [
        ["bi", "1 [1, 1]"], ["er", "2 [2, 2]"], ["none", "3 [3, 3]"]
    ]  # fmt: skip


def test_ranks_share_ties_and_need_seeds():
    values = {"a": {0: 1.0, 1: 3.0}, "b": {0: 3.0, 1: 1.0}, "c": {0: 0.0, 1: 0.0}}
    found = ranks([values])
    assert (found["a"].mean, found["b"].mean, found["c"].mean) == (1.5, 1.5, 3)
    assert (found["a"].low, found["a"].high) == (1, 2)
    assert str(ranks([{"a": {0: 1.0}, "b": {0: 2.0}}])["b"]) == "1"
    assert ranks([{"a": {0: 1.0}}, {"b": {0: 1.0}}]) == {}


def test_pages(tables, tmp_path):
    text = as_markdown(tables, "ofcl reproduce field", "field.svg")
    assert "| bi | 1 [1, 1] | 51.00 ± 1.41 |  | 10.00 ± 0.00 |" in text
    assert "20.74 ± 2.53 / 48.48 ± 3.95" in text
    assert "mfcl does not apply: it makes images." in text
    assert "Not run: none, er, bi." in text
    assert len(as_csv(tables).splitlines()) == 1 + 3 * 3 * 2
    none_yet = [dataclasses.replace(table, standings=[]) for table in tables]
    save_pages(none_yet, "ofcl reproduce field", tmp_path / "empty", None)
    assert not (tmp_path / "empty" / "field.svg").exists()
    save_pages(tables[:1], "ofcl reproduce field", tmp_path / "out", tmp_path / "docs" / "all.md")
    assert (tmp_path / "docs" / "all.md").read_text().count("(all.svg)") == 1
    drawn = [tmp_path / "docs" / "all.svg", tmp_path / "out" / "field.svg"]
    assert all("<svg" in path.read_text() for path in drawn)
    assert (
        "Cost and accuracy: cifar10, M = 200, sound"
        in (tmp_path / "out" / "field.html").read_text()
    )
