"""The labels of a federation."""

from ofcl.federation.server_side.label_space import LabelSpace


def test_labels_that_look_alike_are_pointed_out():
    said = []
    labels = LabelSpace(("Type 1", "b"), said.append)
    assert labels.place("type1") == 2
    assert labels.place("b") == 1
    assert len(said) == 1
    assert "'Type 1' and 'type1'" in said[0]
