"""Any npz file, good or damaged."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.own_data import FEW, ON_BAD, check, folder, outcome, written


@FEW
@given(
    labels=st.lists(st.sampled_from([b"a", b"b", "é".encode()]), min_size=5, max_size=10),
    bad=st.dictionaries(st.integers(0, 4), st.sampled_from(["nan", "inf", "large", "label"]),
                        max_size=2),
    kind=st.sampled_from(["bytes", "words", "float", "column"]),
    shape=st.sampled_from([(3,), (2, 2), (2, 2, 3), (3, 5, 4)]),
    on_bad=ON_BAD,
)  # fmt: skip
def test_npz(labels, bad, kind, shape, on_bad):
    names = {b"a": 10, b"b": 9, "é".encode(): -1}
    if kind in ("bytes", "words"):
        y = np.array([b"\xe9" if bad.get(i) == "label" else y for i, y in enumerate(labels)])
        if kind == "words":
            y = np.array(["nan" if name == b"\xe9" else name.decode() for name in y])
        read_as = [label.decode() for label in labels]
    else:
        y = np.array([0.5 if bad.get(i) == "label" else names[y] for i, y in enumerate(labels)])
        y = y[:, None] if kind == "column" else y
        read_as = [str(names[label]) for label in labels]
    x = np.ones((len(y), *shape)) * np.arange(1, len(y) + 1).reshape(-1, *[1] * len(shape))
    for i, what in bad.items():
        if what != "label":
            x[i].flat[-1] = {"nan": np.nan, "inf": np.inf, "large": 1e39}[what]
    with folder() as path:
        np.savez(path / "t.npz", x=x, y=y, readme=np.array("made by me"))
        found = outcome(path / "t.npz", on_bad=on_bad)
    good = [(i + 1, name) for i, name in enumerate(read_as) if i not in bad]
    if bad and on_bad == "stop":
        assert any(f"row {i}: " in found for i in bad)
    else:
        check(found, good, [*bad], on_bad, "t.npz")


X, Y = np.zeros((4, 2)), np.array([0, 1, 0, 1])


STRANGE = {
    "nothing": {},
    "other names": {"a": X, "b": Y},
    "objects": {"x": np.array([[1], "a"], dtype=object), "y": Y},
    "object labels": {"x": X, "y": np.array(["a", None, "b", 1], dtype=object)},
    "one number": {"x": np.array(1.0), "y": Y},
    "flat": {"x": np.zeros(4), "y": Y},
    "words": {"x": np.array([["a"]] * 4), "y": Y},
    "complex": {"x": X.astype(complex), "y": Y},
    "dates": {"x": X, "y": np.array(["2020-01-01"] * 4, dtype="datetime64[D]")},
    "no samples": {"x": np.zeros((0, 2)), "y": np.zeros(0)},
    "no values": {"x": np.zeros((4, 0)), "y": Y},
    "other length": {"x": X, "y": Y[:3]},
    "one-hot": {"x": X, "y": np.eye(4)},
    "one label": {"x": X, "y": np.array(1)},
    "one class": {"x": X, "y": np.zeros(4)},
    "video": {"x": np.zeros((4, 2, 3, 4, 5)), "y": Y},
    "alpha": {"x": np.zeros((4, 5, 5, 4)), "y": Y},
    "not pixels": {"x": np.full((4, 5, 5), 300), "y": Y},
    "below 0": {"x": np.full((4, 5, 5), -0.5), "y": Y},
    "other test": {"x_train": X, "y_train": Y, "x_test": np.zeros((4, 3)), "y_test": Y},
    "test images": {"x_train": X, "y_train": Y, "x_test": np.zeros((4, 3, 3)), "y_test": Y},
    "test labels only": {"x_train": X, "y_train": Y, "y_test": Y},
    "empty test": {"x_train": X, "y_train": Y, "x_test": X[:0], "y_test": Y[:0]},
    "class only in test": {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y + 1},
    "records": {"x": X, "y": np.zeros(4, dtype=[("a", int)])},
}


@pytest.mark.parametrize("kind", STRANGE)
def test_strange_npz(tmp_path, kind):
    np.savez(tmp_path / "t.npz", **STRANGE[kind])
    assert isinstance(outcome(tmp_path / "t.npz"), str)
    assert isinstance(outcome(tmp_path / "t.npz", on_bad="skip"), str)


@settings(max_examples=100)
@given(st.data())
def test_damaged_npz(data):
    """Cut short or with other bytes: refused, or none of the arrays was touched."""
    file = io.BytesIO()
    data.draw(st.sampled_from([np.savez, np.savez_compressed]))(file, x=X + np.arange(2), y=Y)
    content = bytearray(file.getvalue())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with folder() as path:
        (path / "t.npz").write_bytes(content)
        found = outcome(path / "t.npz")
    if not isinstance(found, str):
        assert written(found) == [(0, "0"), (0, "0"), (0, "1"), (0, "1")]


def test_other_files_in_an_npz_are_not_read(tmp_path):
    import zipfile

    np.savez(tmp_path / "t.npz", x=X, y=Y)
    with zipfile.ZipFile(tmp_path / "t.npz", "a") as archive:
        archive.writestr("README.txt", "made by me")
    assert len(written(outcome(tmp_path / "t.npz"))) == 4
    (tmp_path / "u.npz").write_bytes(b"\x93NUMPY")
    assert isinstance(outcome(tmp_path / "u.npz"), str)
    np.save(tmp_path / "v.npy", X)
    (tmp_path / "v.npy").rename(tmp_path / "v.npz")
    assert "a single array" in outcome(tmp_path / "v.npz")
