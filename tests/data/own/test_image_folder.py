"""Folders of images, with exact numbers."""

import pytest
import torch

from ofcl import OfclError
from tests.support.own_images import paint


def test_a_folder_of_images_without_parts(tmp_path, read):
    for i in range(5):
        paint(tmp_path / "pets" / "dog" / f"{i}.png", 100 + i)
        paint(tmp_path / "pets" / "cat" / "deep" / f"{i}.png", i)
        paint(tmp_path / "pets" / "cat" / ".ipynb_checkpoints" / f"{i}-checkpoint.png", i)
    data = read(tmp_path / "pets")
    assert (data.kind, data.shape, data.labels) == ("image", (1, 4, 4), ("cat", "dog"))
    assert torch.bincount(data.y_train).tolist() == [4, 4]
    assert torch.bincount(data.y_test).tolist() == [1, 1]
    x, y = torch.cat([data.x_train, data.x_test]), torch.cat([data.y_train, data.y_test])
    assert sorted(x[y == 0, 0, 0, 0].tolist()) == [0, 1, 2, 3, 4]
    assert sorted(x[y == 1, 0, 3, 3].tolist()) == [100, 101, 102, 103, 104]
    assert data.notes == ()
    assert data.source == str(tmp_path / "pets")


@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("Training", "Testing")])
def test_a_folder_of_images_with_parts(tmp_path, read, train, test):
    paint(tmp_path / "i" / train / "b" / "0.png", (1, 2, 3), mode="RGB")
    paint(tmp_path / "i" / train / "a" / "0.png", 7)
    paint(tmp_path / "i" / test / "b" / "0.png", 9)
    data = read(tmp_path / "i")
    assert data.x_train[:, :, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3]]
    assert data.x_test[:, :, 0, 0].tolist() == [[9, 9, 9]]
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([0, 1], [1])
    assert data.notes == ("no test samples of 'a': A and F say nothing of them",)


def test_parts_without_train_are_not_classes(tmp_path, read):
    paint(tmp_path / "i" / "test" / "a" / "0.png", 1)
    paint(tmp_path / "i" / "val" / "b" / "0.png", 2)
    with pytest.raises(OfclError, match="there is no 'i/train'"):
        read(tmp_path / "i")
