"""Figures show the numbers that they are given."""

import warnings

import numpy as np
import pytest

import ofcl
from ofcl.report import figures
from ofcl.report.page import as_html, make_report

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once


@pytest.mark.parametrize("labels", [("$x^$", "_private"), ("猫", "$y_$")])
def test_any_name_of_a_class_can_be_drawn(tmp_path, labels):
    def readings(seed):
        draw = np.random.default_rng(seed)
        for n in range(60):
            yield draw.normal(3 * (n // 30), 1, size=4), labels[n // 30]

    ofcl.run(streams=[readings(0), readings(1)], out=tmp_path / "run", method="er", memory=10,
             burn_in=1)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = as_html(make_report([tmp_path]))
    legend = html[html.index('data-name="memory-by-class"') :].split("</figure>")[0]
    for label in labels:
        assert label in legend.split("<figcaption")[0]


def test_the_heights_of_bars_are_the_numbers():
    figure = figures.bars({"forgetting": [5.0, None, -2.0]}, x="task", y="points")
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights[0] == 5.0
    assert np.isnan(heights[1])
    assert heights[2] == -2.0
    figure = figures.histogram({"kept": [0.0, 0.5, 0.5], "dropped": [0.1]}, x="u")
    kept, dropped = np.split(np.array([p.get_height() for p in figure.axes[0].patches]), 2)
    assert kept.sum() == pytest.approx(100)
    assert dropped.sum() == pytest.approx(100)
    assert kept.max() == pytest.approx(200 / 3)
