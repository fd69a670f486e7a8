"""The catalogue, and the paper's settings of its datasets."""

import numpy as np
import pytest

from ofcl import load_dataset, make_settings
from ofcl.assembly.dealing import build_reading
from ofcl.data.named.catalogue import DATASETS
from tests.support.official_files import FILES

BUILT_IN = {"digits", "fashion-mini"}


def test_the_eight_are_named():
    assert set(FILES) == DATASETS.keys() - BUILT_IN


def test_subsets_are_of_the_paper_and_of_its_code(tmp_path, no_embedding):
    """What the settings say of DBPedia and Yahoo, here on a smaller scale."""
    for dataset, protocol, expected in (
        ("dbpedia", "sound", (None, None, 2000, 400)),
        ("yahoo", "sound", (None, None, 2000, 500)),
        ("yahoo", "published", (20_000, 5000, 1000, 200)),
        ("cifar10", "published", (None, None, None, None)),
    ):
        made = make_settings({"dataset": dataset, "protocol": protocol})
        how = build_reading(made).subset
        found = (how.train_head, how.test_head, how.train_per_class, how.test_per_class)
        assert found == expected
    FILES["yahoo"](tmp_path)
    small = make_settings({"dataset": "yahoo", "data_root": str(tmp_path), "train_head": 25,
                           "train_per_class": 2, "test_per_class": 1})  # fmt: skip
    data = load_dataset("yahoo", build_reading(small))
    counts = np.bincount(data.y_train.numpy(), minlength=10)
    assert counts.tolist() == [2] * 10  # the first 25 have two or three of each
    assert len(data.y_test) == 10


@pytest.mark.parametrize(
    ("dataset", "protocol", "expected"),
    [
        ("cifar10", "sound", (5, "random", "none")),
        ("tinyimagenet", "published", (10, "released", "none")),
        ("crc-tissue", "sound", (4, "size", "smallest")),
        ("crc-tissue", "published", (4, "size", "last")),
        ("kc-cell", "sound", (4, "size", "none")),
        ("dbpedia", "published", (5, "released", "none")),
    ],
)
def test_the_papers_settings_of_a_dataset(dataset, protocol, expected):
    made = make_settings({"dataset": dataset, "protocol": protocol})
    assert (made.tasks, made.class_order, made.drop_class) == expected


def test_a_user_overrides_what_the_paper_sets():
    assert make_settings({"dataset": "kc-cell", "tasks": 2}).tasks == 2
