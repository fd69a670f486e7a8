"""Heat maps of few and of many classes."""

import numpy as np
import pytest

from ofcl.report.figures import as_svg
from ofcl.report.heat_maps import confusion_map


def words_at(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def test_few_classes_are_named_at_the_axes():
    labels = ["cat", "$ dog", "a very long name of a bird"]
    figure, _ = confusion_map(np.eye(3), labels, [0, 0, 1])
    axes = figure.axes[0]
    assert words_at(axes.yaxis) == words_at(axes.xaxis) == ["cat", "$ dog", "a very lon… a bird"]
    assert [line.get_ydata()[0] for line in axes.lines[::2]] == [1.5]  # between the tasks


def test_of_many_classes_the_tasks_are_named():
    tasks = [n // 30 for n in range(150)]
    figure, _ = confusion_map(np.eye(150), [str(n) for n in range(150)], tasks)
    assert words_at(figure.axes[0].yaxis) == [f"task {n}" for n in range(1, 6)]
    assert figure.axes[0].get_yticks().tolist() == [14, 44, 74, 104, 134]
    figure, _ = confusion_map(np.eye(150), [str(n) for n in range(150)], [])
    assert words_at(figure.axes[0].yaxis) == []


def test_the_box_is_where_the_cells_are():
    figure, box = confusion_map(np.eye(4), list("abcd"), [])
    at = figure.axes[0].get_position()
    assert (box.left, box.top) == pytest.approx((at.x0, 1 - at.y1))
    width, height = figure.get_size_inches()
    assert box.width * width == pytest.approx(box.height * height)  # cells are squares
    svg = as_svg(figure, "confusions")
    assert svg.count("<image") == 2  # the cells and the scale, each of few pixels
    assert len(svg) < 30_000
