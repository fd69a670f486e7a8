"""Labels as words, and values that are none."""

import json

import pytest

from ofcl import OfclError


@pytest.mark.parametrize(
    ("values", "labels", "y"),
    [
        (["cat", " dog ", "cat"], ("cat", "dog"), [0, 1, 0]),
        ([10, 9, 10], ("9", "10"), [1, 0, 1]),
        ([-1, 1, -2], ("-2", "-1", "1"), [1, 2, 0]),
        ([1, "1", 2.0], ("1", "2"), [0, 0, 1]),
        ([True, False, True], ("false", "true"), [1, 0, 1]),
        (["01", "1", "0"], ("0", "01", "1"), [1, 2, 0]),
    ],
)
def test_labels(tmp_path, read, values, labels, y):
    (tmp_path / "l").mkdir()
    rows = [json.dumps({"label": value, "x": [i, 0.5]}) for i, value in enumerate(values)]
    (tmp_path / "l" / "train.jsonl").write_text("\n".join(rows))
    (tmp_path / "l" / "test.jsonl").write_text(rows[0])
    data = read(tmp_path / "l")
    assert data.labels == labels
    assert data.y_train.tolist() == y
    assert data.x_train.tolist() == [[0, 0.5], [1, 0.5], [2, 0.5]]  # a list is not standardised


@pytest.mark.parametrize(
    "value", [None, "", " ", 0.5, float("nan"), "nan", [1], {"a": 1}, "a\nb", "\ud800"]
)
def test_what_is_no_label_has_its_line_named(tmp_path, read, value):
    rows = [{"label": label, "x": [i]} for i, label in enumerate(["a", "b", value])]
    (tmp_path / "l.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(OfclError, match=r"'l\.jsonl', line 3: column 'label'"):
        read(tmp_path / "l.jsonl")
    data = read(tmp_path / "l.jsonl", on_bad="skip")
    assert data.x_train.tolist() == [[0], [1]]
    assert data.notes[0].startswith("l: 1 left out ('l.jsonl', line 3:")
