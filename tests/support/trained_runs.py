"""Small runs from files on disk, one for each kind of data, and what their server has measured."""

import csv
import json
import shutil

import numpy as np
from PIL import Image

import ofcl
from ofcl.data.live.feeds import WATCH
from ofcl.data.options import Reading
from ofcl.data.own.by_path import read_own
from ofcl.data.selection import train_and_test
from ofcl.evaluation import metrics
from tests.support import official_files

SMALL = {"clients": 2, "tasks": 2, "method": "er", "memory": 20, "limit": 4, "burn_in": 0, "q": 2}
IMAGES = {**SMALL, "model": "convnet", "width": 2}
NOT_FOR_STREAMS = ("clients", "tasks", "limit")
TABLES = {**SMALL, "model": "mlp"}


def squares(n, seed):
    """Images of four classes that a small network half learns: a bright corner, in noise."""
    draw = np.random.default_rng(seed)
    y = np.arange(n) % 4
    x = draw.integers(0, 200, (n, 8, 8), dtype=np.uint8)
    for image, c in zip(x, y, strict=True):
        row, column = 4 * (c // 2), 4 * (c % 2)
        image[row : row + 4, column : column + 4] //= 2
        image[row : row + 4, column : column + 4] += 100
    return x, y


def save_images(folder, x, y):
    for n, (image, c) in enumerate(zip(x, y, strict=True)):
        path = folder / f"class {c}" / f"{n:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)


def image_folder(folder):
    """With a test part of its own."""
    save_images(folder / "pictures" / "train", *squares(80, 0))
    save_images(folder / "pictures" / "test", *squares(41, 1))
    ofcl.run(dataset=str(folder / "pictures"), out=folder / "run", **IMAGES)
    return folder / "pictures", folder / "pictures" / "test"


def plain_folder(folder):
    """Without a test part: a fifth is split off."""
    save_images(folder / "pictures", *squares(120, 0))
    ofcl.run(dataset=str(folder / "pictures"), out=folder / "run", **IMAGES)
    raw = read_own(str(folder / "pictures"), Reading())
    _, test = train_and_test(raw, Reading())
    for file, c in zip(test.samples, test.y, strict=True):
        (folder / "apart" / raw.labels[c]).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / "apart" / raw.labels[c] / file.name)
    return None, folder / "apart"


def npz(folder):
    (x, y), (x_test, y_test) = squares(80, 0), squares(41, 1)
    np.savez(folder / "all.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    np.savez(folder / "test.npz", x=x_test, y=y_test)
    ofcl.run(dataset=str(folder / "all.npz"), out=folder / "run", **IMAGES)
    return folder / "all.npz", folder / "test.npz"


def cifar10(folder):
    official_files.cifar10(folder / "data")
    settings = {**IMAGES, "tasks": 5, "data_root": str(folder / "data")}
    ofcl.run(dataset="cifar10", out=folder / "run", **settings)
    return "cifar10", None


def write_rows(path, columns, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def patients(n, seed):
    draw = np.random.default_rng(seed)
    kinds = ["fever", "stable", "shock", "cough"]
    return [
        [round(draw.normal(60 + 15 * (i % 4), 10), 1), round(draw.normal(1e3 * (i % 2), 500)),
         kinds[i % 4]]
        for i in range(n)
    ]  # fmt: skip


def table(folder):
    for name, rows in (("train", patients(80, 0)), ("test", patients(40, 1))):
        write_rows(folder / "rows" / f"{name}.csv", ["pulse", "weight", "diagnosis"], rows)
    (folder / "apart").mkdir()
    shutil.copy(folder / "rows" / "test.csv", folder / "apart" / "later.csv")
    ofcl.run(dataset=str(folder / "rows"), label="diagnosis", out=folder / "run", **TABLES)
    return folder / "rows", folder / "apart" / "later.csv"


def mixed_table(folder):
    """With words for numbers in a column, and gaps."""
    for name, rows in (("train", patients(80, 0)), ("test", patients(40, 1))):
        wards = [[pulse, "" if n % 9 == 0 else "heavy" if weight > 500 else "light", kind]
                 for n, (pulse, weight, kind) in enumerate(rows)]  # fmt: skip
        write_rows(folder / "rows" / f"{name}.csv", ["pulse", "build", "diagnosis"], wards)
    (folder / "apart").mkdir()
    shutil.copy(folder / "rows" / "test.csv", folder / "apart" / "later.csv")
    ofcl.run(dataset=str(folder / "rows"), label="diagnosis", out=folder / "run", **TABLES)
    return folder / "rows", folder / "apart" / "later.csv"


def texts(folder):
    words = {"sport": "goal match team", "food": "bread soup salt", "law": "court judge trial",
             "sea": "wave ship salt"}  # fmt: skip
    for name, count in (("train", 10), ("test", 4)):
        rows = [
            [f"{words[topic]} {name} {n}", topic] for n in range(count) for topic in sorted(words)
        ]
        write_rows(folder / "letters" / f"{name}.csv", ["body", "topic"], rows)
    ofcl.run(dataset=str(folder / "letters"), label="topic", text="body", embedder="minilm",
             data_root=str(folder / "data"), out=folder / "run", **TABLES)  # fmt: skip
    return folder / "letters", folder / "letters" / "test.csv"


def stream_of_images(folder):
    """Two watched folders; both clients are tested on the same images."""
    for client in range(2):
        save_images(folder / f"ward-{client}", *squares(60, client))
    save_images(folder / "apart", *squares(24, 7))
    run_streams(folder, 2, {**IMAGES, "width": 2})
    return None, folder / "apart"


def stream_of_rows(folder):
    """Two clients with numbers of different size: all share one scale."""
    for client in range(2):
        rows = [[p * (1 + client), w, d] for p, w, d in patients(80, client)]
        write_rows(folder / f"ward-{client}" / "a.csv", ["pulse", "weight", "diagnosis"], rows)
    write_rows(folder / "apart" / "t.csv", ["pulse", "weight", "diagnosis"], patients(40, 1))
    run_streams(folder, 2, {**TABLES, "label": "diagnosis", "window": 20})
    return None, folder / "apart"


def stream_of_mixed_rows(folder):
    """Two clients with categories and gaps that are not the same."""
    names = ["pulse", "weight", "ward", "diagnosis"]
    for client in range(3):
        rows = [[p if n % 5 else "", w, "xyz"[(n + client) % 3], d]
                for n, (p, w, d) in enumerate(patients(60, client))]  # fmt: skip
        write_rows(folder / (f"ward-{client}" if client < 2 else "apart") / "a.csv", names, rows)
    run_streams(folder, 2, {**TABLES, "label": "diagnosis", "window": 20})
    return None, folder / "apart"


def run_streams(folder, clients, settings):
    without = {name: value for name, value in settings.items() if name not in NOT_FOR_STREAMS}
    streams = tuple(f"{WATCH}{folder / f'ward-{n}'}" for n in range(clients))
    made = ofcl.make_settings(
        {**without, "streams": streams, "test": str(folder / "apart"), "idle": 0.1, "batch_size": 5}
    )
    for _ in ofcl.Run(made, out=folder / "run"):
        pass


KINDS = {
    "image folder": image_folder,
    "plain folder": plain_folder,
    "npz": npz,
    "cifar10": cifar10,
    "table": table,
    "mixed table": mixed_table,
    "texts": texts,
    "images in streams": stream_of_images,
    "rows in streams": stream_of_rows,
    "mixed rows in streams": stream_of_mixed_rows,
}
"""Each makes a run in `run/` of a folder; returns its data with their test part (None: they have
none), and its test samples apart (None: they are only by name)."""


def server_counts(run):
    """Right answers and samples of each label as the server has counted them, and `result.json`."""
    last = {}
    for line in (run / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "evaluated":
            last[event["client"]] = event["global_test"]
    labels = json.loads((run / "model" / "model.json").read_text())["labels"]
    merged = metrics.merge(list(last.values()))
    counts = {labels[c]: (right, n) for task in merged for c, right, n in task}
    return counts, json.loads((run / "result.json").read_text())
