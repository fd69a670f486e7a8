"""The paper's eight datasets, from small files in their official formats."""

import pytest

from ofcl.data.named.catalogue import DATASETS
from tests.support.official_files import FILES, cifar10, load, newsgroups, tinyimagenet, topics_csv

SHAPES = {  # train, test, shape, classes
    "cifar10": (100, 30, (3, 32, 32), 10),
    "cifar100": (200, 100, (3, 32, 32), 100),
    "tinyimagenet": (12, 4, (3, 64, 64), 3),
    "crc-tissue": (90, 18, (3, 28, 28), 9),
    "kc-cell": (90, 18, (1, 28, 28), 8),
}


@pytest.mark.parametrize("name", SHAPES)
def test_images(tmp_path, name):
    FILES[name](tmp_path)
    assert DATASETS[name].present(tmp_path)
    data = load(name, tmp_path)
    train, test, shape, classes = SHAPES[name]
    assert (len(data.x_train), len(data.x_test), data.shape) == (train, test, shape)
    assert len(data.labels) == classes
    assert sorted(set(data.y_train.tolist())) == list(range(classes))
    assert len(data.mean) == len(data.std) == shape[0]
    assert data.kind == "image"
    assert data.source == name


def test_cifar_samples_and_labels_stay_together(tmp_path):
    cifar10(tmp_path)
    data = load("cifar10", tmp_path)
    # Every batch of 20 counts its images from 0, and its labels with them.
    assert [int(x.float().mean()) % 10 for x in data.x_train] == data.y_train.tolist()
    assert data.labels[:2] == ("thing 0", "thing 1")


def test_tinyimagenet_has_words_and_tests_on_its_validation_part(tmp_path):
    tinyimagenet(tmp_path)
    data = load("tinyimagenet", tmp_path)
    assert data.labels == ("salamander (n02)", "goldfish (n01)", "(n03)")
    assert data.y_test.tolist() == [0, 1, 2, 2]
    means = [round(float(x.float().mean())) for x in data.x_train]
    assert means == [0, 1, 2, 3, 40, 41, 42, 43, 80, 81, 82, 83]  # also those without colour


def test_medmnist_brings_its_own_validation_part(tmp_path):
    FILES["kc-cell"](tmp_path)
    data = load("kc-cell", tmp_path)
    assert len(data.x_validation) == len(data.y_validation) == 27


def test_newsgroups(tmp_path, no_embedding):
    newsgroups(tmp_path)
    data = load("20newsgroups", tmp_path)
    assert data.labels == ("alt.atheism", "sci.med")
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1])
    assert no_embedding[0] == "train alt.atheism 0 café"


@pytest.mark.parametrize(
    ("name", "csv_files", "text"),
    [
        ("dbpedia", topics_csv("dbpedia_csv", ("t", "c"), 14), 'train "t", 0 train "c", 0'),
        (
            "yahoo",
            topics_csv("yahoo_answers_csv", ("q", "c", "a"), 10),
            'train "q", 0 train "c", 0 train "a", 0',
        ),
    ],
)
def test_topics_from_the_hub_and_from_their_authors(tmp_path, no_embedding, name, csv_files, text):
    classes = DATASETS[name].classes
    FILES[name](tmp_path / "hub")
    data = load(name, tmp_path / "hub")
    assert (len(data.y_train), len(data.y_test)) == (3 * classes, 2 * classes)
    assert data.y_train.tolist() == [i % classes for i in range(3 * classes)]
    assert no_embedding[0].startswith("train ")  # the missing title is left out
    assert "None" not in no_embedding[0]
    del no_embedding[:]
    csv_files(tmp_path / "csv")
    other = load(name, tmp_path / "csv")
    assert other.y_train.tolist() == data.y_train.tolist()
    assert no_embedding[0] == text
