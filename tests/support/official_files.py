"""Small files in the official formats of the paper's eight datasets."""

import csv
import pickle

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

from ofcl import Reading, load_dataset


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


def load(name, root):
    return load_dataset(name, Reading(root=root))
