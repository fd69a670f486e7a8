"""Labels of points: near points share one, and the others do not lie upon each other."""

import itertools

from ofcl.report.scatter import Point, _box, _overlap, labels, panels_of_points

CROWD = [Point(10.0 + n, 50.0 + 3 * (n % 3), f"method{n}") for n in range(6)]
FAR = [Point(1.0, 10.0, "none"), Point(1000.0, 90.0, "best")]


def test_points_that_nearly_coincide_share_a_label():
    found = labels([*FAR, Point(10.0, 50.0, "er"), Point(10.1, 50.2, "cbr")])
    assert [name for name, _, _ in found] == ["none", "best", "er, cbr"]
    assert found[2][1] == (10.0, 50.0)


def test_labels_of_a_crowd_do_not_lie_upon_each_other():
    import math

    points = [*FAR, *CROWD]
    boxes = []
    for name, (x, y), place in labels(points):
        boxes.append(_box((math.log(x) / math.log(1000.0), y / 80.0), name, place))
    assert len(boxes) > 4
    assert not any(_overlap(one, other) for one, other in itertools.combinations(boxes, 2))
    usual = [_box((math.log(p.x) / math.log(1000.0), p.y / 80.0), p.name, ("left", 5.0, 3.0))
             for p in points]  # fmt: skip
    assert any(_overlap(one, other) for one, other in itertools.combinations(usual, 2))


def test_a_single_point_and_equal_ones_can_be_drawn():
    figure = panels_of_points({"one": [Point(2.0, 5.0, "er")], "same": [Point(3.0, 5.0, "a")] * 2},
                              x="seconds", y="A")  # fmt: skip
    texts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert texts == [["er"], ["a, a"]]
