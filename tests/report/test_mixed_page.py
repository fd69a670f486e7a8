"""Forty runs of many kinds on one page: names, blocks, what is drawn, and no warnings."""

import re
import warnings

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from ofcl.cli.main import app
from ofcl.report import figures
from ofcl.report.page import as_html, make_report

pytestmark = pytest.mark.xdist_group("report")  # the runs are made once


@pytest.fixture(scope="module")
def report(mixed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return make_report([mixed], samples=4, drawn=2)


def test_a_block_a_dataset_called_by_its_last_part(report):
    names = [block.dataset for block in report.blocks]
    assert names == ["blobs", "digits", "fashion-mini", "heart.csv", "letters.csv", "streams",
                     "wards (streams)"]  # fmt: skip
    assert len(report.runs) == 40
    fashion = report.blocks[2]
    assert {e.within for e in fashion.experiments} == {
        "bi, memory 30", "bi, memory 500", "cbr, memory 30", "er, memory 30", "none, memory 30",
        "er, joint, memory 30",
    }  # fmt: skip
    assert {e.name for e in report.blocks[4].experiments} == {"letters.csv cbr", "letters.csv er"}


def test_nothing_that_is_unset_is_shown(report, mixed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = as_html(report)
    words = re.sub(r"<style>.*?</style>|<script>.*?</script>|<[^>]+>", " ", html, flags=re.DOTALL)
    assert not re.search(r"\bNone\b|\(\)|mathdefault", words)
    for block in report.blocks:
        assert all(value for _, value in block.settings)
        assert all(row[1] for row in block.differences)
    assert len(set(re.findall(r' id="([^"]+)"', html))) == len(re.findall(r' id="([^"]+)"', html))
    assert ["alpha", "0.1", "bi, split dirichlet, alpha 0.1"] in report.blocks[1].differences


def test_the_best_of_each_dataset_are_drawn(report):
    drawn = [e.name for e in report.experiments for run in e.runs if run.drawn]
    best = [block.experiments[0].name for block in report.blocks]
    assert drawn == best[:2]
    html = as_html(report)
    assert html.count("Figures and memories: <code>ofcl report ") == 38
    assert html.count('data-name="along-the-stream"') == 2


def test_runs_that_are_not_finished_are_in_the_table(report):
    states = {e.name: e.state for e in report.experiments if e.state}
    assert states == {
        "digits er": "1 of 2 runs not finished",
        "heart.csv cbr, blurry 0.25, memory 12": "1 of 3 runs not finished",
    }


def test_the_commands_say_what_there_is_and_nothing_of_libraries(mixed, tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.cli.compare_command.out_console", Console(width=80))
    compared = CliRunner().invoke(app, ["compare", str(mixed)])
    assert compared.exit_code == 0
    assert "…" not in compared.stdout
    made = CliRunner().invoke(
        app, ["report", str(mixed), "-o", str(tmp_path / "r.html"), "--drawn", "0"]
    )
    assert made.exit_code == 0
    assert "--drawn 40 draws all" in made.output
    assert "Warning" not in made.output + compared.output


def test_the_axis_of_a_histogram_has_plain_numbers():
    figure = figures.histogram({"kept": [0.001, 0.5], "dropped": [2.0]}, x="uncertainty")
    svg = figures.as_svg(figure, "h")
    assert "mathdefault" not in svg
    assert ">0.01</text>" in svg


@pytest.mark.parametrize("names", [["bi, memory 500, keep top", "er, memory 500"],
                                   [f"class {n}" for n in range(18)]])  # fmt: skip
def test_a_legend_takes_no_room_from_the_axes(names):
    curves = [figures.Curve(name, [1.0, 2.0], [5.0, 6.0]) for name in names]
    figure = figures.lines(curves, x="task", y="accuracy, %")
    figure.draw_without_rendering()
    (legend,), (axes,) = figure.legends, figure.axes
    box, place = legend.get_window_extent(), axes.get_tightbbox()
    assert not box.overlaps(place)
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert place.height > 0.6 * 2.9 * figure.dpi
    assert np.isclose(axes.get_position().width, 1 - (0.66 + 0.1) / 4.6)
