"""The gap to joint training, seed by seed."""

import csv
import io

import pytest
from rich.console import Console

import ofcl
from ofcl.cli.show import print_comparison
from ofcl.report import result_tables
from ofcl.report.comparison import compare
from ofcl.report.joint_gap import gap_to_joint
from ofcl.report.page import as_html, make_report
from tests.conftest import TINY


@pytest.fixture(scope="module")
def runs(tmp_path_factory, blobs):
    """Two methods; one of them as joint training too, with one seed more."""
    folder = tmp_path_factory.mktemp("runs")
    for method, joint, seeds in (("none", False, (0,)), ("er", False, (0, 1)),
                                 ("er", True, (0, 1, 2))):  # fmt: skip
        for seed in seeds:
            out = folder / f"{method}-{joint}-{seed}"
            ofcl.run(blobs, out=out, **{**TINY, "protocol": "sound", "method": method},
                     joint=joint, seed=seed)  # fmt: skip
    return folder


def test_the_gap_is_over_the_seeds_that_both_have():
    gap = gap_to_joint({0: [60.0, 70.0], 1: [40.0], 5: [1.0]}, {0: [75.0], 1: [80.0], 2: [9.0]})
    assert (gap.A.mean, gap.seeds) == (25.0, 2)
    assert gap.A.std == pytest.approx(30 / 2**0.5)
    assert gap.share == pytest.approx(100 * 105 / 155)
    assert str(gap) == "25.00 ± 21.21 (68 %)"
    assert gap_to_joint({0: [60.0]}, {1: [75.0]}) is None
    assert gap_to_joint({0: []}, {0: [75.0]}) is None
    assert gap_to_joint({0: [0.0]}, {0: [0.0]}).share is None


def lines_of(folder):
    lines, _ = compare([folder])
    return {(line.settings["method"], line.settings["joint"]): line for line in lines}


def test_each_experiment_is_beside_its_own_joint_training(runs):
    lines = lines_of(runs)
    er, joint, none = lines["er", False], lines["er", True], lines["none", False]
    both = [sum(joint.A_by_seed[seed]) / 2 - sum(er.A_by_seed[seed]) / 2 for seed in (0, 1)]
    assert er.below_joint.A.mean == pytest.approx(sum(both) / 2)
    assert er.below_joint.seeds == 2
    assert (joint.below_joint, none.below_joint) == (None, None)


def test_joint_training_is_no_competitor(runs):
    lines = lines_of(runs)
    assert lines["er", True].A.mean > lines["er", False].A.mean > lines["none", False].A.mean
    assert lines["er", True].A_less_best is lines["er", False].A_less_best is None
    (alone,), _ = compare([runs / "er-True-0"])
    assert (alone.A_less_best, alone.below_joint) == (None, None)


def test_tables_have_the_column_where_it_is_known(runs):
    lines, _ = compare([runs])
    gap = str(lines_of(runs)["er", False].below_joint)
    out = Console(record=True, width=200)
    print_comparison(out, lines)
    assert gap in out.export_text()
    assert f"| {gap} |" in result_tables.as_markdown(lines)
    rows = list(csv.DictReader(io.StringIO(result_tables.as_csv(lines))))
    shares = {(row["method"], row["joint"]): row["share_of_joint"] for row in rows}
    assert shares["none", "False"] == shares["er", "True"] == ""
    assert 0 < float(shares["er", "False"]) < 100
    without, _ = compare([runs / "er-False-0", runs / "none-False-0"])
    assert "joint" not in result_tables.as_latex(without) + result_tables.as_csv(without)


def test_the_page_has_the_gap_and_one_row_for_all_tasks(runs):
    report = make_report([runs / "er-False-0", runs / "er-True-0"])
    (gap,) = [line.below_joint for line in report.lines if line.below_joint]
    html = as_html(report)
    assert str(gap) in html
    assert "the share of its A that is reached" in html
    assert "All tasks came as one" in html
    assert html.count('<th scope="row">all</th>') == 4  # mean, server, two clients
    head = "".join(f'<th scope="col">{name}</th>' for name in
                   ("after ╲ on", "task 1", "task 2", "task 3"))  # fmt: skip
    assert html.count(head) == 8
    assert html.count('data-name="learned-and-kept"') == 2
    assert html.count('data-name="accuracy-over-time"') == 1
    assert html.count('data-name="forgetting"') == 1
