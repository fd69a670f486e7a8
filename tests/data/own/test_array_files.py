"""Arrays in npz files."""

import numpy as np
import pytest

from ofcl import OfclError


def test_npz_in_our_keys(tmp_path, read):
    x = np.arange(8.0).reshape(4, 2)
    np.savez(tmp_path / "v.npz", x_train=x, y_train=[3, -1, 3, 10], x_test=x[:1], y_test=[10])
    data = read(tmp_path / "v.npz")
    assert (data.kind, data.labels) == ("vector", ("-1", "3", "10"))
    assert data.x_train.tolist() == x.tolist()
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([1, 0, 1, 2], [2])
    np.savez(tmp_path / "w.npz", x_train=x, y_train=[3, -1, 3, 10], x_test=x[:1])
    with pytest.raises(OfclError, match=r"'w.npz' has x_test but no y_test"):
        read(tmp_path / "w.npz")


def test_npz_in_the_keys_of_medmnist(tmp_path, read):
    images = np.arange(4, dtype=np.uint8)[:, None, None, None] * np.ones((1, 5, 6, 3), np.uint8)
    labels = np.array([[0], [1], [0], [1]], np.uint8)
    np.savez(
        tmp_path / "m.npz", train_images=images, train_labels=labels, val_images=images[:1],
        val_labels=labels[:1], test_images=images[2:], test_labels=labels[2:],
    )  # fmt: skip
    data = read(tmp_path / "m.npz")
    assert (data.kind, data.shape) == ("image", (3, 5, 6))
    assert data.x_train[:, 2, 4, 5].tolist() == [0, 1, 2, 3]
    assert data.x_test[:, 0, 0, 0].tolist() == [2, 3]
    assert (data.y_test.tolist(), data.y_validation.tolist()) == ([0, 1], [0])


def test_the_scale_of_images_is_one_for_all_parts(tmp_path, read):
    bright, dark = np.full((2, 3, 3), 200.0), np.full((2, 3, 3), 1.0)
    np.savez(tmp_path / "s.npz", x_train=bright, y_train=[0, 1], x_test=dark, y_test=[0, 1])
    assert read(tmp_path / "s.npz").x_test[:, 0, 0, 0].tolist() == [1, 1]
    np.savez(tmp_path / "s.npz", x=np.stack([dark[0], dark[0] / 5]), y=["b", "a"])
    assert read(tmp_path / "s.npz").x_train[:, 0, 0, 0].tolist() == [255, 51]
    np.savez(tmp_path / "s.npz", x=np.array([True, False])[:, None, None], y=["b", "a"])
    assert read(tmp_path / "s.npz").x_train[:, 0, 0, 0].tolist() == [255, 0]
