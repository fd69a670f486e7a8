"""The datasets that come with the package."""

from pathlib import Path

import pytest
import torch

import ofcl.data
from ofcl import load_dataset


@pytest.mark.parametrize(
    ("name", "train", "test", "shape"),
    [("fashion-mini", 6000, 1000, (1, 28, 28)), ("digits", 1437, 360, (1, 8, 8))],
)
def test_embedded_data(name, train, test, shape):
    data = load_dataset(name)
    assert (len(data.y_train), len(data.y_test), data.shape) == (train, test, shape)
    assert len(data.labels) == 10
    prepared = data.prepare(data.x_train)
    assert abs(prepared.mean().item()) < 1e-3
    assert abs(prepared.std().item() - 1) < 1e-2


def test_fashion_mini_is_balanced_and_small():
    data = load_dataset("fashion-mini")
    assert torch.bincount(data.y_train).tolist() == [600] * 10
    assert torch.bincount(data.y_test).tolist() == [100] * 10
    folder = Path(ofcl.data.__file__).parent
    assert (folder / "fashion-mini.npz").stat().st_size < 4_000_000
    assert "MIT License" in (folder / "FASHION-MNIST-LICENSE.txt").read_text()
