"""People's own data, one example of each kind, with exact numbers."""

import bz2
import gzip
import json
import lzma

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from PIL import Image

from ofcl import OfclError, Reading, load_dataset
from ofcl.data.options import Subset

TEXTS = ("a cat sleeps", "a dog barks", "cats purr", "dogs run", "one more cat", "one more dog")


@pytest.fixture
def read(tmp_path):
    """Reads data of the test's folder."""
    return lambda path, **how: load_dataset(str(path), Reading(root=tmp_path / "root", **how))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Texts that are embedded once, and the folder that keeps their vectors."""
    folder = tmp_path_factory.mktemp("texts")
    rows = "".join(f'"{text}, indeed",{"cat" if "cat" in text else "dog"}\n' for text in TEXTS)
    (folder / "t.csv").write_text(f"text,label\n{rows}")
    return load_dataset(str(folder / "t.csv"), Reading(root=folder, embedder="minilm")), folder


def paint(path, value, size=(4, 4), mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)


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


def test_images_of_different_sizes_need_one(tmp_path, read):
    paint(tmp_path / "i" / "a" / "0.png", 10, (3, 5))
    paint(tmp_path / "i" / "b" / "0.png", 20, (8, 2))
    with pytest.raises(OfclError, match=r"a/0.png' is 3 × 5, .*b/0.png' 8 × 2; .*--image-size"):
        read(tmp_path / "i")
    data = read(tmp_path / "i", image_size=6)
    assert data.x_train.shape == (2, 1, 6, 6)
    assert data.x_train[:, 0, 5, 5].tolist() == [10, 20]


@pytest.mark.parametrize(
    ("values", "read_as"),
    [((200, 300), (12, 18)), ((100, 200), (100, 200)), ((4095, 0), (255, 0))],
)
def test_16_bits_are_brought_to_8_alike(tmp_path, read, values, read_as):
    """One dark image among others is not taken for one of 8 bits."""
    for name, value in zip("ab", values, strict=True):
        (tmp_path / "i" / name).mkdir(parents=True)
        Image.fromarray(np.full((2, 2), value, np.uint16)).save(tmp_path / "i" / name / "0.png")
    assert read(tmp_path / "i").x_train[:, 0, 0, 0].tolist() == list(read_as)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif"])
def test_a_photo_is_turned_as_its_exif_data_say(tmp_path, read, suffix):
    pixels = np.zeros((2, 4), np.uint8)
    pixels[:, 2:] = 255  # bright on the right; turned by a quarter, at the bottom
    for name in "ab":
        (tmp_path / "i" / name).mkdir(parents=True)
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(pixels).save(tmp_path / "i" / name / f"0.{suffix}", exif=exif)
    data = read(tmp_path / "i")
    assert data.shape == (1, 4, 2)
    assert (data.x_train[0, 0] > 128).tolist() == [[False] * 2] * 2 + [[True] * 2] * 2


def test_npz_in_our_keys(tmp_path, read):
    x = np.arange(8.0).reshape(4, 2)
    np.savez(tmp_path / "v.npz", x_train=x, y_train=[3, -1, 3, 10], x_test=x[:1], y_test=[10])
    data = read(tmp_path / "v.npz")
    assert (data.kind, data.labels) == ("vector", ("-1", "3", "10"))
    assert data.x_train.tolist() == x.tolist()
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([1, 0, 1, 2], [2])
    np.savez(tmp_path / "w.npz", x_train=x, y_train=[3, -1, 3, 10], x_test=x[:1])
    with pytest.raises(OfclError, match=r"'w.npz' has x_test but no y_test"):
        read(tmp_path / "w.npz")


def test_npz_in_the_keys_of_medmnist(tmp_path, read):
    images = np.arange(4, dtype=np.uint8)[:, None, None, None] * np.ones((1, 5, 6, 3), np.uint8)
    labels = np.array([[0], [1], [0], [1]], np.uint8)
    np.savez(
        tmp_path / "m.npz", train_images=images, train_labels=labels, val_images=images[:1],
        val_labels=labels[:1], test_images=images[2:], test_labels=labels[2:],
    )  # fmt: skip
    data = read(tmp_path / "m.npz")
    assert (data.kind, data.shape) == ("image", (3, 5, 6))
    assert data.x_train[:, 2, 4, 5].tolist() == [0, 1, 2, 3]
    assert data.x_test[:, 0, 0, 0].tolist() == [2, 3]
    assert (data.y_test.tolist(), data.y_validation.tolist()) == ([0, 1], [0])


def test_the_scale_of_images_is_one_for_all_parts(tmp_path, read):
    bright, dark = np.full((2, 3, 3), 200.0), np.full((2, 3, 3), 1.0)
    np.savez(tmp_path / "s.npz", x_train=bright, y_train=[0, 1], x_test=dark, y_test=[0, 1])
    assert read(tmp_path / "s.npz").x_test[:, 0, 0, 0].tolist() == [1, 1]
    np.savez(tmp_path / "s.npz", x=np.stack([dark[0], dark[0] / 5]), y=["b", "a"])
    assert read(tmp_path / "s.npz").x_train[:, 0, 0, 0].tolist() == [255, 51]
    np.savez(tmp_path / "s.npz", x=np.array([True, False])[:, None, None], y=["b", "a"])
    assert read(tmp_path / "s.npz").x_train[:, 0, 0, 0].tolist() == [255, 0]


def test_columns_are_standardised_by_rows_from_all_over(tmp_path, read):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "train.csv").write_text("a,b,label\n1,0.1,x\n100,0.3,x\n3,0.1,y\n")
    (tmp_path / "t" / "test.csv").write_text("label,b,a\nx,0.1,2\ny,1.1,5\n")
    data = read(tmp_path / "t", window=2)
    assert data.x_train.tolist() == [[-1, 0], [98, pytest.approx(0.2)], [1, 0]]
    assert data.x_test.tolist() == [[0, 0], [3, 1]]
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([0, 0, 1], [0, 1])


def test_a_subset_of_each_class_leaves_columns_standardised(tmp_path, read):
    rows = [f"{100 * (n % 4)},{n % 4}" for n in range(400)]
    (tmp_path / "t.csv").write_text("a,label\n" + "\n".join(rows))
    data = read(tmp_path / "t.csv", subset=Subset(train_per_class=60, test_per_class=3), window=50)
    assert abs(data.x_train.mean()) < 0.2
    assert abs(data.x_train.std() - 1) < 0.2
    assert data.y_test.bincount().tolist() == [3] * 4


def test_a_column_that_does_not_vary_is_only_shifted(tmp_path, read):
    """Its mean is rounded, so that its deviation in the window is 7e-17 rather than 0."""
    rows = [f"{i},0.1,{'xy'[i % 2]}\n" for i in range(200)]
    (tmp_path / "c.csv").write_text("a,b,label\n" + "".join(rows) + "200,1.1,x\n")
    data = read(tmp_path / "c.csv", test_share=0.1)
    both = torch.cat([data.x_train, data.x_test])[:, 1]
    assert both.sort().values.tolist() == [0] * 200 + [1]


def test_chosen_columns_and_other_delimiters(tmp_path, read):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfid;Kind;n\r\n1;u;5\r\n2;v;7\r\n3;u;5\r\n")
    data = read(tmp_path / "t.csv", label="Kind", columns=("n",), window=3)
    assert data.labels == ("u", "v")
    assert torch.cat([data.x_train, data.x_test]).tolist() == [[-1], [1], [-1]]
    with pytest.raises(OfclError, match="no column 'kind'; it has id, Kind, n"):
        read(tmp_path / "t.csv", label="kind")
    with pytest.raises(OfclError, match="cannot be learnt from itself"):
        read(tmp_path / "t.csv", label="n", columns=("n", "id"))


def test_the_index_that_pandas_writes_is_not_a_column(tmp_path, read):
    (tmp_path / "t.csv").write_text(",a,label\n0,1,x\n1,3,y\n")
    assert read(tmp_path / "t.csv").x_train.tolist() == [[-1], [1]]


def test_a_decimal_comma_is_not_taken_for_text(tmp_path, read):
    (tmp_path / "t.csv").write_text("a;label\n1,5;x\n2,5;y\n")
    with pytest.raises(OfclError, match=r"'t.csv': the numbers of column 'a' have commas"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("values", "labels", "y"),
    [
        (["cat", " dog ", "cat"], ("cat", "dog"), [0, 1, 0]),
        ([10, 9, 10], ("9", "10"), [1, 0, 1]),
        ([-1, 1, -2], ("-2", "-1", "1"), [1, 2, 0]),
        ([1, "1", 2.0], ("1", "2"), [0, 0, 1]),
        ([True, False, True], ("false", "true"), [1, 0, 1]),
        (["01", "1", "0"], ("0", "01", "1"), [1, 2, 0]),
    ],
)
def test_labels(tmp_path, read, values, labels, y):
    (tmp_path / "l").mkdir()
    rows = [json.dumps({"label": value, "x": [i, 0.5]}) for i, value in enumerate(values)]
    (tmp_path / "l" / "train.jsonl").write_text("\n".join(rows))
    (tmp_path / "l" / "test.jsonl").write_text(rows[0])
    data = read(tmp_path / "l")
    assert data.labels == labels
    assert data.y_train.tolist() == y
    assert data.x_train.tolist() == [[0, 0.5], [1, 0.5], [2, 0.5]]  # a list is not standardised


@pytest.mark.parametrize(
    "value", [None, "", " ", 0.5, float("nan"), "nan", [1], {"a": 1}, "a\nb", "\ud800"]
)
def test_what_is_no_label_has_its_line_named(tmp_path, read, value):
    rows = [{"label": label, "x": [i]} for i, label in enumerate(["a", "b", value])]
    (tmp_path / "l.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(OfclError, match=r"'l\.jsonl', line 3: column 'label'"):
        read(tmp_path / "l.jsonl")
    data = read(tmp_path / "l.jsonl", on_bad="skip")
    assert data.x_train.tolist() == [[0], [1]]
    assert data.notes[0].startswith("l: 1 left out ('l.jsonl', line 3:")


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_packed_tables(tmp_path, read, suffix, pack):
    path = tmp_path / f"p.csv.{suffix}"
    path.write_bytes(pack.compress(b"a,label\n1,x\n3,y\n"))
    assert read(path).x_train.tolist() == [[-1], [1]]
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(OfclError, match=rf"p\.csv\.{suffix}' is damaged"):
        read(path)


def test_parquet(tmp_path, read):
    table = pyarrow.table({"x": [[1.0, 2.0], [3.0, 4.0], None], "y": [5, 6, 5]})
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    with pytest.raises(OfclError, match=r"'p.parquet', line 3: column 'x' is not a list"):
        read(tmp_path / "p.parquet")
    data = read(tmp_path / "p.parquet", on_bad="skip")
    assert (data.labels, data.x_train.tolist()) == (("5", "6"), [[1, 2], [3, 4]])


def test_the_hub_as_a_local_folder(tmp_path, read, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "hub").mkdir()
    for part, rows in (("train", [1, 2, 3]), ("test", [4])):
        table = pyarrow.table(
            {"v": [[row, 0.5] for row in rows], "label": ["b", "a", "b"][: len(rows)]}
        )
        pyarrow.parquet.write_table(table, tmp_path / "hub" / f"{part}.parquet")
    data = read(f"hf:{tmp_path / 'hub'}")
    assert data.x_train.tolist() == [[1, 0.5], [2, 0.5], [3, 0.5]]
    assert (data.x_test.tolist(), data.labels) == ([[4, 0.5]], ("a", "b"))
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([1, 0, 1], [1])
    assert (data.name, data.source) == ("hub", f"hf:{tmp_path / 'hub'}")


def test_images_of_the_hub(tmp_path, read, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    for i, value in enumerate([3, (10, 20, 30), 5]):
        paint(tmp_path / f"{i}.png", value, (2, 3), "RGB" if i == 1 else "L")
    files = [(tmp_path / f"{i}.png").read_bytes() for i in range(3)]
    rows = {
        "image": [{"bytes": f, "path": None} for f in [*files, files[0][:40]]],
        "class": [0, 1, 0, 1],
    }
    features = datasets.Features(
        {"image": datasets.Image(), "class": datasets.ClassLabel(names=["no", "yes"])}
    )
    (tmp_path / "hub").mkdir()
    made = datasets.Dataset.from_dict(rows, features=features)
    made.to_parquet(tmp_path / "hub" / "train.parquet")
    with pytest.raises(OfclError, match=r"hub \(train\), row 4' cannot be read as an image"):
        read(f"hf:{tmp_path / 'hub'}")
    data = read(f"hf:{tmp_path / 'hub'}", on_bad="skip", test_share=0.3)
    x, y = torch.cat([data.x_train, data.x_test]), torch.cat([data.y_train, data.y_test])
    assert data.shape == (3, 3, 2)  # one in colour: all are
    assert sorted((x[:, :, 0, 0].tolist()[i], y[i].item()) for i in range(3)) == [
        ([3, 3, 3], 0), ([5, 5, 5], 0), ([10, 20, 30], 1),
    ]  # fmt: skip
    assert "1 left out" in data.notes[0]


def test_texts_in_csv(texts):
    data, _ = texts
    assert (data.kind, data.shape, data.labels) == ("vector", (384,), ("cat", "dog"))
    assert (len(data.y_train), len(data.y_test)) == (4, 2)
    assert data.x_train.norm(dim=1).tolist() == pytest.approx([1] * 4, abs=1e-5)
    alike = data.x_train @ data.x_test.T
    same = data.y_train[:, None] == data.y_test
    assert alike[same].mean() > alike[~same].mean()  # a text and its label stayed together


def test_texts_in_jsonl_come_from_the_cache(tmp_path, texts, monkeypatch):
    monkeypatch.setattr(
        "ofcl.data.files.embeddings.load_encoder", lambda *_: pytest.fail("embedded again")
    )
    (tmp_path / "j").mkdir()
    rows = [json.dumps({"body": f"{t}, indeed", "y": int("cat" in t)}) for t in TEXTS]
    (tmp_path / "j" / "train.jsonl").write_text("\n".join(rows))
    (tmp_path / "j" / "val.jsonl").write_text("\n".join(rows[:2]))
    data = load_dataset(str(tmp_path / "j"), Reading(root=texts[1], embedder="minilm"))
    assert data.y_train.tolist() == [1, 0, 1, 0, 1, 0]
    assert torch.equal(data.x_test, data.x_train[:2])
