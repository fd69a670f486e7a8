"""The script that makes a hundred classes of CIFAR-10, for docs/recipe.md."""

import importlib.util
import pickle
from pathlib import Path

import numpy as np
import pytest

from ofcl import Reading, load_dataset

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def script():
    path = ROOT / "scripts/hundred_classes.py"
    spec = importlib.util.spec_from_file_location("hundred_classes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_cifar10(root):
    """A hundred train images and twenty test images, all different."""
    draw, folder = np.random.default_rng(0), root / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]:
        data = draw.integers(0, 256, (20, 3072), dtype=np.uint8)
        labels = [n % 2 for n in range(20)]  # fifty train images of each of two classes
        (folder / name).write_bytes(pickle.dumps({b"data": data, b"labels": labels}))
    names = [f"thing{n}".encode() for n in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": names}))


def test_every_class_is_divided_into_ten_and_ofcl_reads_them(script, tmp_path):
    write_cifar10(tmp_path)
    script.main(tmp_path, tmp_path / "out")
    made = load_dataset("cifar100", Reading(root=tmp_path / "out"))
    assert len(made.labels) == 100
    assert made.labels[13] == "thing1-3"
    assert sorted(set(made.y_train.tolist())) == list(range(20))
    coarse = np.tile([0, 1], 50)
    assert (made.y_train.numpy() // 10 == coarse).all()
    assert (made.y_test.numpy() // 10 == coarse[:20]).all()


def test_a_flip_brightness_and_contrast_leave_the_features_nearly_as_they_are(script):
    images = np.random.default_rng(0).integers(40, 120, (4, 3, 32, 32)).astype(np.float32)
    versions = (images, images[..., ::-1], 1.5 * images + 20)
    features, flipped, brighter = (script.features(part.reshape(4, 3072)) for part in versions)
    assert np.array_equal(features, flipped)
    # Rounding moves an edge between two directions into the other one.
    assert np.abs(features - brighter).mean() < 0.05 < 1 < np.abs(features[0] - features[1]).mean()
