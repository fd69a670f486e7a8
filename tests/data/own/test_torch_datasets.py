"""Datasets of PyTorch and of the hub are learned as they are; their transforms stay theirs."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, TensorDataset

import ofcl
from ofcl import OfclError, Reading
from ofcl.data.own.torch_datasets import dataset_of


class Pictures(TorchDataset):
    """As torchvision's: images of PIL, a transform, names of classes."""

    classes = ("cat", "dog")

    def __init__(self, n=12, transform=None, mode="RGB"):
        self.n, self.transform, self.mode = n, transform, mode

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        image = Image.new(self.mode, (8, 8), (20 * i) if self.mode == "L" else (20 * i, 0, i))
        return (self.transform(image) if self.transform else image), i % 2


class Endless(IterableDataset):
    def __iter__(self):
        return iter([])


def to_tensor(image):
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255


def test_images_of_pil_and_tensors_are_the_same():
    plain = dataset_of(Pictures(), Pictures(4), Reading())
    turned = dataset_of(Pictures(transform=to_tensor), Pictures(4, to_tensor), Reading())
    assert plain.labels == ("cat", "dog")
    assert plain.x_train.shape == (12, 3, 8, 8)
    assert torch.equal(plain.x_train, turned.x_train)
    assert plain.x_train[3, 0, 0, 0] == 60
    assert dataset_of(Pictures(mode="L"), None, Reading()).shape == (1, 8, 8)


def test_a_transform_that_normalises_is_said():
    made = dataset_of(Pictures(transform=lambda i: to_tensor(i) * 4 - 2), None, Reading())
    assert any("were mapped to 256 shades" in note for note in made.notes)
    x = made.prepare(made.x_train)
    assert x.mean().abs() < 0.1


def test_vectors_are_taken_as_they_are():
    x, y = torch.randn(20, 5), torch.arange(20) % 2
    made = dataset_of(TensorDataset(x, y), TensorDataset(x[:4], y[:4]), Reading())
    assert torch.equal(made.x_train, x)
    assert made.labels == ("0", "1")


def test_items_may_have_names():
    items = [
        {"pixel_values": np.full((8, 8, 3), i, np.uint8), "label": "ab"[i % 2]} for i in range(6)
    ]
    assert dataset_of(items, None, Reading()).labels == ("a", "b")


def test_a_run_learns_them(tmp_path):
    x = torch.randn(80, 6) + 3 * (torch.arange(80) % 4)[:, None]
    data = TensorDataset(x, torch.arange(80) % 4)
    result = ofcl.run(data, test=data, clients=2, tasks=2, memory=20)
    assert result.rounds > 0
    assert result.A > 50


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(torch.zeros(3), 0), (torch.zeros(4), 1)], "sample 1 is"),
        ([], "has no samples"),
        ([5], "must be \\(x, y\\)"),
        ([{"a": 1}], "has a; expected one of image"),
        (Endless(), "has no length"),
    ],
)
def test_what_cannot_be_used_is_said(given, message):
    with pytest.raises(OfclError, match=message):
        dataset_of(given, None, Reading())


def test_the_hubs_own(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = {"a": [0.0, 1.0] * 20, "b": [1.0, 2.0] * 20, "label": ["x", "y"] * 20}
    split = datasets.Dataset.from_dict(rows)
    made = dataset_of(split, None, Reading(label="label"))
    assert made.labels == ("x", "y")
    both = dataset_of(datasets.DatasetDict(train=split, test=split.select(range(4))), None,
                      Reading(label="label"))  # fmt: skip
    assert len(both.y_test) == 4
