"""Experiments in the terminal: a table a dataset, A and F in sight however narrow it is."""

import io
import re

import pytest
from rich.console import Console

from ofcl import make_settings
from ofcl.cli.show import print_comparison
from ofcl.evaluation.results import Result
from ofcl.report.comparison import compare_results

LONG = "/somewhere/deep/below/the/users/home/registry-of-heart-failure.csv"


def result(A, F):
    matrix = [[A + F, None], [A, A]]
    return Result(A=A, F=F, accuracy=[matrix, matrix], global_A=A, global_F=F, rounds=3,
                  global_accuracy=matrix, bytes_sent=1, bytes_received=1, seconds=1.0,
                  balanced_accuracy=A, validation_A=None, anytime_accuracy=A,
                  anytime_loss=1.0)  # fmt: skip


@pytest.fixture(scope="module")
def lines():
    """Eighteen experiments of three datasets, with three seeds each."""
    runs = []
    for dataset, label in (("digits", None), (LONG, "died within thirty days"), ("cifar10", None)):
        for n, (method, memory) in enumerate((m, k) for m in ("bi", "er", "none")
                                             for k in (200, 500)):  # fmt: skip
            for seed in range(3):
                values = {"dataset": dataset, "label": label, "method": method, "memory": memory,
                          "protocol": "sound", "seed": seed}  # fmt: skip
                runs.append((make_settings(values), result(50 + n + seed**2, 30 + n + seed**2)))
    return compare_results(runs)


def printed(lines, width):
    out = Console(record=True, width=width, file=io.StringIO())
    print_comparison(out, lines)
    return out.export_text()


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_and_f_are_in_sight(lines, width):
    text = printed(lines, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for n in range(6):
        line = next(s for s in text.splitlines() if f"{50 + n + 5 / 3:.2f} ± 2.08" in s)
        assert f"{30 + n + 5 / 3:.2f} ± 2.08" in line
    assert ("not shown at this width: " in text) == (width < 200)


def test_a_block_a_dataset_and_nothing_that_is_unset(lines):
    text = printed(lines, 80)
    heads = re.findall(r"^\S.*: protocol sound$", text, re.MULTILINE)
    assert [head.split(":")[0] for head in heads] == ["cifar10", "digits", LONG.split("/")[-1]]
    assert not re.search(r"None|\(\)|thirty days|somewhere", text)
    assert text.count("none, memory 500") == 3


def test_the_best_is_the_best_of_its_dataset(lines):
    best = [line for line in lines if line.A_less_best is None]
    assert [(line.dataset, line.name) for line in best] == [
        (name, "none, memory 500") for name in ("cifar10", "digits", LONG.split("/")[-1])
    ]


def test_the_heading_of_short_names_is_whole():
    runs = []
    for method, far in (("bi", 0), ("er", 7)):
        for seed in range(2):
            values = {"dataset": "digits", "method": method, "protocol": "sound", "seed": seed}
            runs.append((make_settings(values), result(60 + far + 3 * seed, -6 - seed)))
    text = printed(compare_results(runs), 80)
    (heading,) = [line for line in text.splitlines() if line.startswith("exp")]
    assert heading.split()[:2] == ["experiment", "seeds"]
    assert "not shown at this width: global A ↑, global F ↓" in text
