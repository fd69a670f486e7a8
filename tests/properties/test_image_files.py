"""Any folder of images, good or damaged."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.support.own_data import FEW, ON_BAD, folder, outcome, written


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
