"""Finished runs compared, one line for each experiment."""

from dataclasses import replace

import pytest
from rich.console import Console

import ofcl
from ofcl.cli.show import print_comparison
from ofcl.report.comparison import compare
from tests.conftest import TINY


def test_protocols_are_told_apart_by_their_name(tmp_path, blobs):
    for name, values in {
        "a": {"protocol": "sound"},
        "b": {"protocol": "published"},
        "c": {"protocol": "sound", "lr": 0.02},
        "d": {"protocol": "sound", "seed": 1},
        "e": {"protocol": "sound", "seed": 1},  # a second time: says nothing of the spread
    }.items():
        ofcl.run(blobs, out=tmp_path / name, **{**TINY, "method": "er", **values})
    lines, unfinished = compare([tmp_path])
    assert unfinished == []
    assert {tuple(line.settings) for line in lines} == {
        ("dataset", "method", "memory", "protocol", "lr")
    }
    seeds = {(line.settings["protocol"], line.settings["lr"]): line.seeds for line in lines}
    assert seeds == {("sound", 0.003): (0, 1), ("published", 3e-4): (0,), ("sound", 0.02): (0,)}


def test_runs_that_contradict_each_other_are_told_of(tmp_path, blobs):
    """The same settings and seed, but other data of the same name."""
    others = replace(blobs, x_train=blobs.x_train.flip(0), y_train=blobs.y_train.flip(0))
    for name, data in (("a", blobs), ("b", blobs), ("c", others)):
        ofcl.run(data, out=tmp_path / name, **TINY)
    (line,), _ = compare([tmp_path])
    assert (line.seeds, line.left_out) == ((0,), 2)
    (line,), _ = compare([tmp_path / "a", tmp_path / "b"])
    assert (line.seeds, line.left_out) == ((0,), 0)


def test_published_spreads_over_clients(tmp_path, blobs):
    result = ofcl.run(blobs, out=tmp_path / "run", **{**TINY, "protocol": "published"})
    (line,), _ = compare([tmp_path])
    ends = [sum(matrix[-1]) / 3 for matrix in result.accuracy]
    assert line.A.std == abs(ends[0] - ends[1]) / 2
    assert line.global_A.std is None


def test_a_comparison_says_whether_it_is_clear(tmp_path, blobs):
    for method in ("none", "er"):
        for seed in (0, 1):
            ofcl.run(blobs, out=tmp_path / f"{method}{seed}", **{**TINY, "method": method},
                     seed=seed)  # fmt: skip
    (best, other), _ = compare([tmp_path])
    assert best.A_less_best is None
    assert other.A_less_best.mean == pytest.approx(other.A.mean - best.A.mean)
    assert other.A_less_best.seeds == 2
    out = Console(record=True, width=200)
    print_comparison(out, [best, other])
    assert str(other.A_less_best) in out.export_text()
