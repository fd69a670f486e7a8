"""The datasets that come with the package."""

import hashlib
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


def test_digits_are_those_that_scikit_learn_distributes():
    from sklearn.datasets import load_digits

    known, data = load_digits(), load_dataset("digits")
    for part, rows in (("test", slice(0, None, 5)), ("train", [n for n in range(1797) if n % 5])):
        x, y = getattr(data, f"x_{part}"), getattr(data, f"y_{part}")
        assert (x[:, 0].numpy() == (known.images * 15).astype("uint8")[rows]).all()
        assert (y.numpy() == known.target[rows]).all()
    folder = Path(ofcl.data.__file__).parent
    assert "CC BY 4.0" in (folder / "DIGITS-LICENSE.txt").read_text()
    assert (folder / "digits.npz").stat().st_size < 50_000


def test_digits_stay_the_same_whatever_scikit_learn_does():
    data = load_dataset("digits")
    parts = (data.x_train, data.y_train, data.x_test, data.y_test)
    digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()
    assert digest == "6fe63e8d16dcfe19f087b2029dfd552a7d499ea8cc32bba8257060577965dbb8"
