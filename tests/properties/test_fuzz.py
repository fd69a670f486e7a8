"""People's own data, damaged as people damage them: an error that names it, or what was written."""

import contextlib
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from ofcl import OfclError, Reading, load_dataset
from ofcl.cli import main as cli

FEW = settings(max_examples=40)
ON_BAD = st.sampled_from(["stop", "skip"])


@contextlib.contextmanager
def folder():
    """A new folder; a test's own one is the same for all examples."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def outcome(path, **how):
    """The dataset, or what was said against it; any other error and any warning is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            data = load_dataset(str(path), Reading(root=path.parent / "root", **how))
        except OfclError as error:
            assert path.name.split(".")[0] in str(error)
            assert "Traceback" not in str(error)
            return str(error)
    assert data.x_train.isfinite().all()
    assert data.x_test.isfinite().all()
    return data


def written(data):
    """The samples of both parts: the first value of each, and its label."""
    x = torch.cat([data.x_train, data.x_test]).flatten(1)[:, 0].double().tolist()
    y = torch.cat([data.y_train, data.y_test]).tolist()
    return sorted((value, data.labels[place]) for value, place in zip(x, y, strict=True))


def check(found, good, bad, on_bad, name):
    """The good rows and no others; `bad` are the lines of the others."""
    if bad and on_bad == "stop":
        assert isinstance(found, str)
        assert any(f"'{name}', line {line}: " in found for line in bad), found
    elif len({label for _, label in good}) < 2:
        assert isinstance(found, str)
        assert "at least two classes" in found
    else:
        assert not isinstance(found, str), found
        assert written(found) == sorted(good)
        left_out = [note for note in found.notes if "left out" in note]
        assert len(left_out) == bool(bad)
        assert all(f": {len(bad)} left out (" in note for note in left_out)


# --- CSV ---

LABELS = st.sampled_from(["a", "b", "7", "-1", "ü b", " c ", "a"])
GOOD_CSV = {
    "plain": "{i}{d}{label}", "decimal": "{i}.0{d}{label}", "signed": "+{i}{d}{label}",
    "spaces": "  {i} {d} {label}  ", "quoted": '"{i}"{d}"{label}"', "power": "{i}e0{d}{label}",
}  # fmt: skip
BAD_CSV = {
    "missing": "{d}{label}", "blank": "  {d}{label}", "nan": "nan{d}{label}",
    "infinite": "-inf{d}{label}", "large": "1e39{d}{label}", "word": "abc{d}{label}",
    "thousands": '"1,000"{d}{label}', "short": "{i}", "long": "{i}{d}{label}{d}x",
    "no label": "{i}{d}", "blank label": '{i}{d}" "', "nan label": "{i}{d}NaN",
    "text after a quote": '"{i}"0{d}{label}', "line break": '{i}{d}"a\nb"',
}  # fmt: skip


@FEW
@given(
    good=st.lists(st.tuples(st.sampled_from([*GOOD_CSV]), LABELS), min_size=5, max_size=12),
    bad=st.lists(st.tuples(st.sampled_from([*BAD_CSV]), LABELS, st.integers(0, 4)), max_size=2),
    blank=st.lists(st.integers(0, 4), max_size=2),
    delimiter=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    last_end=st.booleans(),
    on_bad=ON_BAD,
)
def test_csv(good, bad, blank, delimiter, end, encoding, last_end, on_bad):
    rows = [(GOOD_CSV[kind], label, True) for kind, label in good]
    for kind, label, place in bad:
        rows.insert(place, (BAD_CSV[kind], label, False))
    lines, line, kept, bad_lines = [f"id{delimiter}label"], 1, [], []
    for i, (form, label, fine) in enumerate(rows):
        if i in blank:
            lines.append("")
            line += 1
        text = form.format(i=i, d=delimiter, label=label)
        lines.append(text)
        kept += [(i, label.strip())] if fine else []
        bad_lines += [] if fine else [line + 1]
        line += 1 + text.count("\n")
    content = end.join(lines) + (end if last_end else "")
    with folder() as path:
        (path / "t.csv").write_bytes(content.encode(encoding))
        found = outcome(path / "t.csv", on_bad=on_bad, window=1)
    if not isinstance(found, str):  # by a window of one row, columns are only shifted
        shift = min(i for i, _ in kept) - written(found)[0][0]
        kept = [(i - shift, label) for i, label in kept]
    check(found, kept, bad_lines, on_bad, "t.csv")


TABLE = "id,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(8))
RUINED = {
    "empty": b"",
    "blank": b"\n  \n",
    "header only": b"id,label\n",
    "no header": b"1,2\n3,4\n",
    "one class": b"id,label\n1,a\n2,a\n",
    "one name twice": b"id,id,label\n1,2,a\n3,4,b\n",
    "no label": b"id,other\n1,a\n2,b\n",
    "only the label": b"label\na\nb\n",
    "latin1": TABLE.replace(",a", ",\xe4").encode("latin1"),
    "utf-16 without a mark": TABLE.encode("utf-16-le"),
    "utf-16 the other way": TABLE.encode("utf-16-be"),
    "utf-32": TABLE.encode("utf-32"),
    "utf-16, odd": TABLE.encode("utf-16")[:-1],
    "zero bytes": TABLE.encode().replace(b"4,a", b"4,a\0"),
    "open quote": TABLE.encode().replace(b"3,b", b'"3,b'),
    "open quote in the header": b'"' + TABLE.encode(),
    "quotes that swallow lines": TABLE.encode().replace(b"2,a", b'"2,a').replace(b"5,b", b'5,"b"'),
    "old Mac": TABLE.replace("\n", "\r").encode(),
    "decimal commas": b"id;label\n1,5;a\n2,5;b\n",
    "decimal commas between commas": b"id,label\n1,5,a\n2,5,b\n",
    "long header": b"x" * 200_000 + b"\n1\n",
    "image": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "hardly varies, then large": b"id,label\n1e-30,a\n2e-30,b\n1e30,a\n1e30,b\n",
    "measures": b"x,label\n" + b"".join(b"1,0.%d\n" % i for i in range(100, 130)),
}


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
@pytest.mark.parametrize("kind", RUINED)
def test_ruined_csv(tmp_path, kind, on_bad):
    (tmp_path / "t.csv").write_bytes(RUINED[kind])
    assert isinstance(outcome(tmp_path / "t.csv", on_bad=on_bad, window=2, test_share=0.4), str)


@FEW
@given(st.integers(0, len(TABLE)))
def test_csv_cut_short(end):
    """Whole rows are read as they were; of the last, nobody can know."""
    with folder() as path:
        (path / "t.csv").write_text(TABLE[:end])
        found = outcome(path / "t.csv", on_bad="skip", window=1)
    rows = TABLE[:end].split("\n")[1:]
    whole = [row for row in rows if len(row) == 3]
    assert isinstance(found, str) == (len(whole) < 2)
    if not isinstance(found, str):
        first = written(found)[0][0]
        assert written(found) == [(int(row[0]) + first, row[2]) for row in whole]


@FEW
@given(st.binary(max_size=60), st.sampled_from(["csv", "tsv", "jsonl", "npz", "parquet", "csv.gz"]))
def test_any_bytes(content, suffix):
    with folder() as path:
        (path / f"t.{suffix}").write_bytes(content)
        assert isinstance(outcome(path / f"t.{suffix}"), str)
        (path / f"u.{suffix}").write_bytes(b"id,label\n1,a\n2,b\n" + content)
        outcome(path / f"u.{suffix}", on_bad="skip")


# --- JSONL ---

GOOD_JSON = st.sampled_from(["a", "b", 7, -1, 2.0, True, " c ", "7"])
BAD_JSON = [
    '{"x": [1, 2], "label": "a"', '{"x": [1, 2], "label": ', '[[1, 2], "a"]', "7", "null", '"a"',
    '{"x": [1, 2]}', '{"label": "a"}', "{}", '{"x": [], "label": "a"}', '{"x": 3, "label": "a"}',
    '{"x": [1, [2]], "label": "a"}', '{"x": {"a": 1}, "label": "a"}', '{"x": null, "label": "a"}',
    '{"x": [NaN, 1], "label": "a"}', '{"x": [Infinity, 1], "label": "a"}',
    '{"x": [1e39, 1], "label": "a"}', '{"x": [1%s, 1], "label": "a"}' % ("0" * 400),
    '{"x": [1%s, 1], "label": "a"}' % ("0" * 5000), '{"x": ["a", 1], "label": "a"}',
    '{"x": [1, 2, 3], "label": "a"}', '{"x": [1], "label": "a"}', '{"x": [true, 1], "label": "a"}',
    '{"x": [1, 2], "label": null}', '{"x": [1, 2], "label": 0.5}', '{"x": [1, 2], "label": NaN}',
    '{"x": [1, 2], "label": ["a"]}', '{"x": [1, 2], "label": "\\ud800"}', "[" * 100_000,
    '{"x": [1, 2], "label": "a"} {"x": [1, 2], "label": "b"}', "{'x': [1, 2], 'label': 'a'}",
]  # fmt: skip


@FEW
@given(
    good=st.lists(GOOD_JSON, min_size=6, max_size=12),
    bad=st.lists(st.tuples(st.sampled_from(BAD_JSON), st.integers(0, 5)), max_size=3),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    on_bad=ON_BAD,
)
def test_jsonl(good, bad, encoding, on_bad):
    rows = [json.dumps({"x": [i, 0.5], "label": label}) for i, label in enumerate(good)]
    fine = set(rows)
    for text, place in bad:
        rows.insert(place, text)
    bad_lines = [line for line, row in enumerate(rows, 1) if row not in fine]
    names = [{True: "true", 2.0: "2"}.get(label, str(label).strip()) for label in good]
    with folder() as path:
        (path / "t.jsonl").write_bytes("\n".join(rows).encode(encoding))
        found = outcome(path / "t.jsonl", on_bad=on_bad)
    check(found, [*enumerate(names)], bad_lines, on_bad, "t.jsonl")


# --- texts ---


def stand_in(texts, **_):
    """Embeds a text as the number it begins with; like a real one, it takes no half characters."""
    assert all(text.encode("utf-8") for text in texts)
    return np.array([[int(text.split("|")[0])] for text in texts], dtype=np.float32)


@FEW
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=())), min_size=4, max_size=8),
    suffix=st.sampled_from(["csv", "jsonl"]),
    ascii_only=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
)
@example(["\u2028", "\x85", '"', "\r\n"], "csv", False, "utf-16")
@example(["\ud800", "\0", "", ""], "jsonl", True, "utf-8")
def test_texts(texts, suffix, ascii_only, encoding):
    half = [any("\ud800" <= letter <= "\udfff" for letter in text) for text in texts]
    if suffix == "csv":
        quoted = [f"{i}|{text}".replace('"', '""') for i, text in enumerate(texts)]
        rows = ["text,label", *(f'"{text}",{"ab"[i % 2]}' for i, text in enumerate(quoted))]
    else:
        rows = [
            json.dumps({"text": f"{i}|{text}", "label": "ab"[i % 2]}, ensure_ascii=ascii_only)
            for i, text in enumerate(texts)
        ]
    content = "\n".join(rows)
    with folder() as path, mock.patch("ofcl.data.preparation.embed", stand_in):
        try:
            (path / f"t.{suffix}").write_bytes(content.encode(encoding))
        except UnicodeEncodeError:  # not even a file
            return
        found = outcome(path / f"t.{suffix}", on_bad="skip")
    good = [(i, "ab"[i % 2]) for i in range(len(texts)) if not half[i]]
    if "\0" in content:
        assert "zero byte" in found
    else:
        check(found, good, [0] * sum(half), "skip", f"t.{suffix}")


# --- npz ---


@FEW
@given(
    labels=st.lists(st.sampled_from([b"a", b"b", "é".encode()]), min_size=5, max_size=10),
    bad=st.dictionaries(st.integers(0, 4), st.sampled_from(["nan", "inf", "large", "label"]),
                        max_size=2),
    kind=st.sampled_from(["bytes", "words", "float", "column"]),
    shape=st.sampled_from([(3,), (2, 2), (2, 2, 3), (3, 5, 4)]),
    on_bad=ON_BAD,
)  # fmt: skip
def test_npz(labels, bad, kind, shape, on_bad):
    names = {b"a": 10, b"b": 9, "é".encode(): -1}
    if kind in ("bytes", "words"):
        y = np.array([b"\xe9" if bad.get(i) == "label" else y for i, y in enumerate(labels)])
        if kind == "words":
            y = np.array(["nan" if name == b"\xe9" else name.decode() for name in y])
        read_as = [label.decode() for label in labels]
    else:
        y = np.array([0.5 if bad.get(i) == "label" else names[y] for i, y in enumerate(labels)])
        y = y[:, None] if kind == "column" else y
        read_as = [str(names[label]) for label in labels]
    x = np.ones((len(y), *shape)) * np.arange(1, len(y) + 1).reshape(-1, *[1] * len(shape))
    for i, what in bad.items():
        if what != "label":
            x[i].flat[-1] = {"nan": np.nan, "inf": np.inf, "large": 1e39}[what]
    with folder() as path:
        np.savez(path / "t.npz", x=x, y=y, readme=np.array("made by me"))
        found = outcome(path / "t.npz", on_bad=on_bad)
    good = [(i + 1, name) for i, name in enumerate(read_as) if i not in bad]
    if bad and on_bad == "stop":
        assert any(f"row {i}: " in found for i in bad)
    else:
        check(found, good, [*bad], on_bad, "t.npz")


X, Y = np.zeros((4, 2)), np.array([0, 1, 0, 1])
STRANGE = {
    "nothing": {},
    "other names": {"a": X, "b": Y},
    "objects": {"x": np.array([[1], "a"], dtype=object), "y": Y},
    "object labels": {"x": X, "y": np.array(["a", None, "b", 1], dtype=object)},
    "one number": {"x": np.array(1.0), "y": Y},
    "flat": {"x": np.zeros(4), "y": Y},
    "words": {"x": np.array([["a"]] * 4), "y": Y},
    "complex": {"x": X.astype(complex), "y": Y},
    "dates": {"x": X, "y": np.array(["2020-01-01"] * 4, dtype="datetime64[D]")},
    "no samples": {"x": np.zeros((0, 2)), "y": np.zeros(0)},
    "no values": {"x": np.zeros((4, 0)), "y": Y},
    "other length": {"x": X, "y": Y[:3]},
    "one-hot": {"x": X, "y": np.eye(4)},
    "one label": {"x": X, "y": np.array(1)},
    "one class": {"x": X, "y": np.zeros(4)},
    "video": {"x": np.zeros((4, 2, 3, 4, 5)), "y": Y},
    "alpha": {"x": np.zeros((4, 5, 5, 4)), "y": Y},
    "not pixels": {"x": np.full((4, 5, 5), 300), "y": Y},
    "below 0": {"x": np.full((4, 5, 5), -0.5), "y": Y},
    "other test": {"x_train": X, "y_train": Y, "x_test": np.zeros((4, 3)), "y_test": Y},
    "test images": {"x_train": X, "y_train": Y, "x_test": np.zeros((4, 3, 3)), "y_test": Y},
    "test labels only": {"x_train": X, "y_train": Y, "y_test": Y},
    "empty test": {"x_train": X, "y_train": Y, "x_test": X[:0], "y_test": Y[:0]},
    "class only in test": {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y + 1},
    "records": {"x": X, "y": np.zeros(4, dtype=[("a", int)])},
}


@pytest.mark.parametrize("kind", STRANGE)
def test_strange_npz(tmp_path, kind):
    np.savez(tmp_path / "t.npz", **STRANGE[kind])
    assert isinstance(outcome(tmp_path / "t.npz"), str)
    assert isinstance(outcome(tmp_path / "t.npz", on_bad="skip"), str)


@settings(max_examples=100)
@given(st.data())
def test_damaged_npz(data):
    """Cut short or with other bytes: refused, or none of the arrays was touched."""
    file = io.BytesIO()
    data.draw(st.sampled_from([np.savez, np.savez_compressed]))(file, x=X + np.arange(2), y=Y)
    content = bytearray(file.getvalue())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with folder() as path:
        (path / "t.npz").write_bytes(content)
        found = outcome(path / "t.npz")
    if not isinstance(found, str):
        assert written(found) == [(0, "0"), (0, "0"), (0, "1"), (0, "1")]


def test_other_files_in_an_npz_are_not_read(tmp_path):
    import zipfile

    np.savez(tmp_path / "t.npz", x=X, y=Y)
    with zipfile.ZipFile(tmp_path / "t.npz", "a") as archive:
        archive.writestr("README.txt", "made by me")
    assert len(written(outcome(tmp_path / "t.npz"))) == 4
    (tmp_path / "u.npz").write_bytes(b"\x93NUMPY")
    assert isinstance(outcome(tmp_path / "u.npz"), str)
    np.save(tmp_path / "v.npy", X)
    (tmp_path / "v.npy").rename(tmp_path / "v.npz")
    assert "a single array" in outcome(tmp_path / "v.npz")


# --- folders of images ---


def image_bytes(kind, value, size=(5, 4)):
    """A file whose image is of one value."""
    file, turned = io.BytesIO(), Image.Exif()
    turned[0x0112] = 6
    match kind:
        case "L":
            Image.new("L", size, value).save(file, "png")
        case "RGB":
            Image.new("RGB", size, (value,) * 3).save(file, "bmp")
        case "RGBA":
            Image.new("RGBA", size, (value, value, value, 0)).save(file, "png")
        case "LA":
            Image.new("LA", size, (value, 128)).save(file, "png")
        case "palette":
            image = Image.new("RGB", size, (value,) * 3).quantize(4)
            image.save(file, "png", transparency=b"\0\x80\xff")
        case "gif":
            Image.new("L", size, value).save(file, "gif")
        case "16 bits":
            Image.fromarray(np.full(size[::-1], value * 256 + 255, np.uint16)).save(file, "png")
        case "16 bits tiff":
            Image.fromarray(np.full(size[::-1], value * 256 + 255, np.uint16)).save(file, "tiff")
        case "CMYK":
            Image.new("CMYK", size, (255 - value,) * 3 + (0,)).save(file, "jpeg")
        case "turned":
            Image.new("L", size[::-1], value).save(file, "jpeg", exif=turned)
        case "turned tiff":
            Image.new("RGB", size[::-1], (value,) * 3).save(file, "tiff", exif=turned)
    return file.getvalue()


KINDS = ["L", "RGB", "RGBA", "LA", "palette", "gif", "16 bits", "16 bits tiff", "CMYK", "turned",
         "turned tiff"]  # fmt: skip
DAMAGE = ["fine"] * 4 + ["cut short", "text", "empty"]
CLASSES = ["a", "ü b", "日本", "c#1;x", "[red]", " lead", "x'y\"z"]
OTHERS = ["a/.hidden.png", "a/notes.txt", "a/.thumbnails/0.png", "top.png", ".git/0.png",
          "a/Thumbs.db"]  # fmt: skip


@FEW
@given(
    files=st.lists(
        st.tuples(st.sampled_from(CLASSES), st.sampled_from(KINDS), st.sampled_from(DAMAGE)),
        min_size=4, max_size=10,
    ),
    nested=st.booleans(),
    others=st.sets(st.sampled_from(OTHERS)),
    side=st.sampled_from([None, 1, 7]),
    on_bad=ON_BAD,
)  # fmt: skip
def test_image_folders(files, nested, others, side, on_bad):
    good, bad = [], []
    with folder() as path:
        root = path / "pets"
        for name in (*others, "a/folder.png/x.txt", "empty/x.txt"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(image_bytes("L", 250))
        for i, (label, kind, damage) in enumerate(files):
            value = 20 * (i + 1)
            content = image_bytes(kind, value)
            if damage != "fine":
                bad.append(f"{i}é {i}.PNG")
                cut = content[: len(content) // 2]
                content = {"cut short": cut, "text": b"no image", "empty": b""}[damage]
            else:
                good.append((value, label))
            file = root / label / ("deep/er" if nested else "") / f"{i}é {i}.PNG"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        found = outcome(root, image_size=side, on_bad=on_bad)
    if isinstance(found, str):
        few = len({label for _, label in good}) < 2
        assert few or (on_bad == "stop" and any(name in found for name in bad)), found
        return
    assert not bad or on_bad == "skip"
    assert found.shape[1:] == ((side, side) if side else (4, 5))
    # What JPEG and CMYK do to a value is less than what parts two files.
    assert [(round(value / 20) * 20, label) for value, label in written(found)] == sorted(good)
    assert any(f"{len(bad)} left out" in note for note in found.notes) == bool(bad)
    assert any("no images in" in note and "'empty'" in note for note in found.notes)


@FEW
@given(
    places=st.sets(st.sampled_from([f"{p}/{c}" for p in ("train", "test", "val") for c in "abc"])),
    case=st.sampled_from([str.lower, str.upper, str.title]),
)
def test_parts_of_image_folders(places, case):
    with folder() as path:
        for value, place in enumerate(sorted(places)):
            part, label = place.split("/")
            file = path / "pets" / case(part) / label / "0.png"
            file.parent.mkdir(parents=True)
            file.write_bytes(image_bytes("L", value))
        (path / "pets").mkdir(exist_ok=True)
        found = outcome(path / "pets")
    parts = {part: {p[-1] for p in places if p.startswith(part)} for part in ("train", "test")}
    if "test" not in {place.split("/")[0] for place in places}:
        parts["test"] = {p[-1] for p in places if p.startswith("val")}
    fine = len(parts["train"]) > 1 and parts["test"] <= parts["train"]
    assert fine != isinstance(found, str)
    if fine:
        assert {found.labels[y] for y in found.y_train} == parts["train"]
        assert {found.labels[y] for y in found.y_test} == parts["test"]


@pytest.mark.parametrize("orientation", [0, 9, 77])
def test_an_orientation_that_there_is_not_is_not_followed(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    for label in "ab":
        (tmp_path / "i" / label).mkdir(parents=True)
        Image.new("L", (5, 4)).save(tmp_path / "i" / label / "0.jpg", exif=exif)
    assert outcome(tmp_path / "i").shape == (1, 4, 5)


def test_images_of_many_bits(tmp_path):
    """From 0 to 1, or of 16 bits; what is neither is refused by name."""
    for label, value in (("a", 0.2), ("b", 1.0)):
        (tmp_path / "i" / label).mkdir(parents=True)
        Image.fromarray(np.full((2, 2), value, np.float32)).save(tmp_path / f"i/{label}/0.tif")
    assert written(outcome(tmp_path / "i")) == [(51, "a"), (255, "b")]
    for value in (np.float32("nan"), np.float32(-1), np.int32(70_000)):
        Image.fromarray(np.full((2, 2), value)).save(tmp_path / "i/a/0.tif")
        assert "0.tif' cannot be read as an image (pixels from" in outcome(tmp_path / "i")


# --- places, and the command line ---


@pytest.mark.parametrize(
    "name", ["./no.csv", "~nobody-of-that-name/x.csv", "x" * 300, "x" * 300 + ".csv", "a\0b.csv"]
)
def test_places_that_there_are_not(name):
    with pytest.raises(OfclError, match=name[:5].replace("~", "").replace("\0", ".")):
        load_dataset(name)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "'t.csv' is empty"),
        ("t.csv", b"id,label\n1,a\n,b\n", "'t.csv', line 3: column 'id' is empty; mend it"),
        ("t.csv", RUINED["open quote"], "'t.csv', line 5: unexpected end of data"),
        ("t.csv", RUINED["latin1"], "'t.csv', line 2: byte 0xe4 is not UTF-8"),
        ("t.csv", RUINED["utf-16 without a mark"], "'t.csv', line 1: a zero byte"),
        ("t.jsonl", b'{"x": [1], "label": 1}\n[]\n', "'t.jsonl', line 2: not a JSON object"),
        ("t.npz", b"PK\3\4", "t.npz' cannot be read as npz"),
        ("t.parquet", b"PAR1", "'t.parquet' cannot be read as Parquet"),
        ("t.csv.gz", b"\x1f\x8b", "t.csv.gz' is damaged"),
        ("t.doc", b"", "what is it?"),
    ],
)
def test_the_command_line_says_it_in_one_line(tmp_path, monkeypatch, capsys, name, content, said):
    (tmp_path / name).write_bytes(content)
    arguments = ["run", "--dataset", str(tmp_path / name), "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["ofcl", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out, err = capsys.readouterr()
    assert stop.value.code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()
