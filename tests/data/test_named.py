"""The paper's eight datasets, from small files in their official formats."""

import csv
import io
import pickle

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from ofcl import Reading, load_dataset, make_settings
from ofcl.assembly.dealing import build_reading
from ofcl.data.named import download
from ofcl.data.named.catalogue import DATASETS
from ofcl.data.named.cifar import read_pickle
from ofcl.data.named.download import Archive, fetch
from ofcl.errors import OfclError

BUILT_IN = {"digits", "fashion-mini"}


def numbered(n, *shape):
    """Images, each filled with its own number."""
    return np.stack([np.full(shape, i % 256, dtype=np.uint8) for i in range(n)])


def write_cifar(folder, files, labels_key, names_file, names_key, classes):
    folder.mkdir(parents=True)
    for name, n in files.items():
        data = numbered(n, 3, 32, 32).reshape(n, -1)
        batch = {b"data": data, labels_key: [i % classes for i in range(n)], b"batch_label": b"x"}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    names = [f"thing {c}".encode() for c in range(classes)]
    (folder / names_file).write_bytes(pickle.dumps({names_key: names}, protocol=2))


def cifar10(root):
    files = {**{f"data_batch_{n}": 20 for n in range(1, 6)}, "test_batch": 30}
    write_cifar(root / "cifar-10-batches-py", files, b"labels", "batches.meta", b"label_names", 10)


def cifar100(root):
    files = {"train": 200, "test": 100}
    folder = root / "cifar-100-python"
    write_cifar(folder, files, b"fine_labels", "meta", b"fine_label_names", 100)


def tinyimagenet(root):
    folder = root / "tiny-imagenet-200"
    ids = ["n02", "n01", "n03"]
    for c, wnid in enumerate(ids):
        images = folder / "train" / wnid / "images"
        images.mkdir(parents=True)
        for i in range(4):
            grey = i == 3  # some of the official ones have no colour
            pixels = np.full((64, 64) if grey else (64, 64, 3), 40 * c + i, dtype=np.uint8)
            Image.fromarray(pixels).save(images / f"{wnid}_{i}.JPEG", quality=95)
    (folder / "val" / "images").mkdir(parents=True)
    lines = []
    for i, wnid in enumerate([*ids, "n03"]):
        Image.fromarray(np.full((64, 64, 3), i, dtype=np.uint8)).save(
            folder / "val" / "images" / f"val_{i}.JPEG"
        )
        lines.append(f"val_{i}.JPEG\t{wnid}\t0\t0\t62\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("\n".join(ids) + "\n")
    (folder / "words.txt").write_text("n01\tgoldfish, Carassius\nn02\tsalamander\nn09\tnobody\n")


def medmnist(name, classes, channels):
    def write(root):
        root.mkdir(exist_ok=True)
        arrays = {}
        for part, n in (("train", 90), ("val", 27), ("test", 18)):
            shape = (28, 28, 3) if channels == 3 else (28, 28)
            arrays[f"{part}_images"] = numbered(n, *shape)
            arrays[f"{part}_labels"] = (np.arange(n) % classes).astype(np.uint8)[:, None]
        np.savez_compressed(root / name, **arrays)

    return write


def newsgroups(root):
    for part, n in (("train", 3), ("test", 2)):
        for group in ("sci.med", "alt.atheism"):
            folder = root / f"20news-bydate-{part}" / group
            folder.mkdir(parents=True)
            for i in range(n):
                (folder / str(1000 + i)).write_bytes(f"{part} {group} {i} caf".encode() + b"\xe9")


def topics_parquet(name, columns, label, classes):
    def write(root):
        (root / name).mkdir(parents=True)
        for part, n in (("train", 3), ("test", 2)):
            rows = classes * n
            table = {c: [f"{part} {c} {i}" for i in range(rows)] for c in columns}
            table[columns[0]][0] = None
            table[label] = [i % classes for i in range(rows)]
            pyarrow.parquet.write_table(pyarrow.table(table), root / name / f"{part}.parquet")

    return write


def topics_csv(folder, columns, classes):
    def write(root):
        (root / folder).mkdir(parents=True)
        for part, n in (("train", 3), ("test", 2)):
            with (root / folder / f"{part}.csv").open("w", newline="") as file:
                rows = csv.writer(file, quoting=csv.QUOTE_ALL)
                for i in range(classes * n):
                    rows.writerow([i % classes + 1, *(f'{part} "{c}", {i}' for c in columns)])

    return write


FILES = {
    "cifar10": cifar10,
    "cifar100": cifar100,
    "tinyimagenet": tinyimagenet,
    "crc-tissue": medmnist("pathmnist.npz", 9, 3),
    "kc-cell": medmnist("tissuemnist.npz", 8, 1),
    "20newsgroups": newsgroups,
    "dbpedia": topics_parquet("dbpedia", ("title", "content"), "label", 14),
    "yahoo": topics_parquet(
        "yahoo", ("question_title", "question_content", "best_answer"), "topic", 10
    ),
}

SHAPES = {  # train, test, shape, classes
    "cifar10": (100, 30, (3, 32, 32), 10),
    "cifar100": (200, 100, (3, 32, 32), 100),
    "tinyimagenet": (12, 4, (3, 64, 64), 3),
    "crc-tissue": (90, 18, (3, 28, 28), 9),
    "kc-cell": (90, 18, (1, 28, 28), 8),
}


def load(name, root):
    return load_dataset(name, Reading(root=root))


def test_the_eight_are_named():
    assert set(FILES) == DATASETS.keys() - BUILT_IN


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


@pytest.fixture
def no_embedding(monkeypatch):
    """Texts as vectors of their length, without a model."""
    seen = []

    def embed(texts, embedder, root, track):
        seen.extend(texts)
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    monkeypatch.setattr("ofcl.data.preparation.embed", embed)
    return seen


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


class Evil:
    def __reduce__(self):
        return (print, ("code of the pickle ran",))


def test_pickles_that_would_run_code_are_refused(tmp_path, capsys):
    cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    path.write_bytes(pickle.dumps({b"data": Evil(), b"labels": []}))
    with pytest.raises(OfclError, match="data_batch_3.*refers to builtins.print"):
        load("cifar10", tmp_path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", pickle.dumps([1, 2]), pickle.dumps({b"data": 3})],
    ids=["empty", "garbage", "list", "no labels"],
)
def test_damaged_batches_are_named(tmp_path, content):
    path = tmp_path / "batch"
    path.write_bytes(content)
    cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    with pytest.raises(OfclError, match="test_batch"):
        load("cifar10", tmp_path)


def test_arrays_of_numpy_two_are_read(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({"data": np.arange(3)}))
    assert read_pickle(path)["data"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", sorted(FILES))
def test_without_network_the_error_says_which_files_go_where(tmp_path, monkeypatch, name):
    def no_network(*arguments, **options):
        raise OSError("Name or service not known")

    monkeypatch.setattr("pooch.retrieve", no_network)
    monkeypatch.setattr("datasets.load_dataset", no_network)
    with pytest.raises(OfclError) as error:
        load(name, tmp_path)
    for file in DATASETS[name].files:
        assert file in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "Name or service not known" in str(error.value)


def test_what_is_downloaded_is_checked_and_unpacked(tmp_path, http_server):
    """A real download, of a small archive from a server on this machine."""
    import hashlib
    import tarfile

    served = tmp_path / "served"
    newsgroups(served)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for part in ("train", "test"):
            archive.add(served / f"20news-bydate-{part}", f"20news-bydate-{part}")
    (served / "news.tar.gz").write_bytes(buffer.getvalue())
    url = f"{http_server(served)}/news.tar.gz"
    right = "sha256:" + hashlib.sha256(buffer.getvalue()).hexdigest()
    with pytest.raises(OfclError, match="cannot be downloaded.*hash"):
        fetch(Archive(url, "sha256:" + "0" * 64, "news.tar.gz"), tmp_path / "root")
    assert not (tmp_path / "root" / "20news-bydate-train").exists()
    fetch(Archive(url, right, "news.tar.gz"), tmp_path / "root")
    assert DATASETS["20newsgroups"].present(tmp_path / "root")
    assert not (tmp_path / "root" / "news.tar.gz").exists()


def test_an_archive_cannot_write_elsewhere(tmp_path):
    import tarfile

    path = tmp_path / "evil.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("../outside")
        archive.addfile(info, io.BytesIO(b""))
    with pytest.raises(tarfile.OutsideDestinationError):
        download._unpack(path, tmp_path / "root")
    assert not (tmp_path / "outside").exists()
