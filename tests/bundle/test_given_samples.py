"""Samples as people have them become what the model's form describes, or say what is wrong."""

from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
import torch
from PIL import Image

import ofcl
from ofcl import OfclError
from ofcl.bundle.given_samples import UnusableSample, collect, decode, images_below
from ofcl.data.files.embedders import Embedder
from ofcl.data.files.images import StoredImage
from ofcl.data.sample_forms import ImageForm, TableForm, TextForm, VectorForm

GREY = ImageForm((1, 2, 3), (0.5,), (0.5,))
COLOUR = ImageForm((3, 4, 4), (0.5,) * 3, (0.5,) * 3, resized=True)
TABLE = TableForm(("age", "pulse"), (0.0, 0.0), (1.0, 1.0), "label")
VECTOR = VectorForm(3, "x")
TEXT = TextForm(Embedder("minilm"), 384, "body")
PIXELS = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40


@pytest.fixture
def image_file(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(PIXELS).save(path)
    return path


@pytest.mark.parametrize("given", [PIXELS, torch.from_numpy(PIXELS), PIXELS / 255, PIXELS[None],
                                   PIXELS[:, :, None], Image.fromarray(PIXELS)],
                         ids=["array", "tensor", "0 to 1", "channel first", "channel last",
                              "Pillow"])  # fmt: skip
def test_one_image(given):
    found = collect(given, GREY)
    assert found.single
    assert np.array_equal(decode(found.samples, GREY), PIXELS[None, None])


def test_image_files_by_path_name_and_bytes(image_file):
    stored = StoredImage("in a table", image_file.read_bytes())
    for given in (image_file, str(image_file), [image_file], [stored]):
        found = collect(given, GREY)
        assert found.single == (not isinstance(given, list))
        assert np.array_equal(decode(found.samples, GREY), PIXELS[None, None])


def test_several_images_in_a_list_and_in_one_array():
    several = np.stack([PIXELS, 255 - PIXELS])
    for given in (several, list(several), [torch.from_numpy(x) for x in several]):
        found = collect(given, GREY)
        assert not found.single
        assert np.array_equal(decode(found.samples, GREY), several[:, None])


def test_images_below_a_folder_at_any_depth(tmp_path):
    for name in ("b.png", "a/c/d.JPG", "a/c/.hidden.png", ".hidden/e.png", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert images_below(tmp_path) == [tmp_path / "a/c/d.JPG", tmp_path / "b.png"]
    with pytest.raises(OfclError, match="no images in"):
        images_below(tmp_path / ".hidden" / "nothing")


def test_an_image_of_another_size_is_resized_only_if_asked(image_file):
    Image.fromarray(np.full((4, 6), 80, dtype=np.uint8)).save(image_file)
    with pytest.raises(UnusableSample, match=r"6 × 4 pixels; .* 3 × 2 pixels.*--resize") as caught:
        decode([image_file], GREY)
    assert caught.value.names_itself
    resized = decode([image_file], GREY, resize=True)  # also where it is not square
    assert np.array_equal(resized, np.full((1, 1, 2, 3), 80))
    assert decode([image_file], COLOUR).shape == (1, 3, 4, 4)  # it has learned from resized ones


def test_a_damaged_image_is_named(tmp_path):
    (tmp_path / "bad.png").write_bytes(b"\x89PNG")
    with pytest.raises(UnusableSample, match="bad.png' cannot be read") as caught:
        decode([PIXELS, tmp_path / "bad.png"], GREY)
    assert caught.value.place == 1


ROWS = [{"age": 3, "pulse": "70", "label": "x"}, {"pulse": 80.0, "age": 4, "more": None}]


@pytest.mark.parametrize("given", [
    ROWS, [[3, 70], [4, 80]], np.array([[3, 70], [4, 80]]), [np.array([3, 70]), (4, 80)],
    pandas.DataFrame({"pulse": [70, 80], "age": [3, 4]}),
    polars.DataFrame({"pulse": [70, 80], "age": [3, 4]}),
], ids=["rows", "lists", "array", "mixed", "pandas", "polars"])  # fmt: skip
def test_rows_of_a_table(given):
    found = collect(given, TABLE)
    assert not found.single
    assert decode(found.samples, TABLE).tolist() == [[3, 70], [4, 80]]


def test_a_tables_path_and_a_single_row(tmp_path):
    (tmp_path / "t.csv").write_text("pulse,age\n70,3\n")
    assert decode(collect(tmp_path / "t.csv", TABLE).samples, TABLE).tolist() == [[3, 70]]
    for given in (ROWS[0], [3, 70], np.array([3, 70])):
        found = collect(given, TABLE)
        assert found.single
        assert decode(found.samples, TABLE).tolist() == [[3, 70]]


@pytest.mark.parametrize(("row", "problem"), [
    ({"age": 3}, "sample 1: column 'pulse' is missing; it has age"),
    ({"age": 3, "pulse": ""}, "sample 1: column 'pulse' is empty"),
    ({"age": "old", "pulse": 70}, "sample 1: column 'age' is not a number but 'old'"),
    ([1, 2, 3], "sample 1: 3 numbers; expected 2: rows of numbers with the columns age, pulse"),
    ([1, None], "sample 1: a value is not a number"),
    ([1, float("nan")], "sample 1: a value is not a number"),
    ([1, 1e39], "sample 1: a value is not a number, or too large"),
    ("a text", "sample 1: str is given; this model takes rows of numbers"),
])  # fmt: skip
def test_a_row_that_does_not_fit_is_named(row, problem):
    with pytest.raises(UnusableSample) as caught:
        decode([[1, 2], row], TABLE)
    assert problem in str(caught.value)
    assert caught.value.place == 1


def test_vectors_and_their_column():
    assert decode(collect([[1, 2, 3]], VECTOR).samples, VECTOR).tolist() == [[1, 2, 3]]
    assert decode([{"x": [1, 2, 3]}], VECTOR).tolist() == [[1, 2, 3]]
    with pytest.raises(OfclError, match="samples of shape 4 are given"):
        collect(np.zeros((2, 4)), VECTOR)


def test_texts_and_their_column():
    assert decode(collect("one", TEXT).samples, TEXT) == ["one"]
    assert decode(collect(np.array(["one", "two"]), TEXT).samples, TEXT) == ["one", "two"]
    frame = pandas.DataFrame({"body": ["one"], "id": [1]})
    assert decode(collect(frame, TEXT).samples, TEXT) == ["one"]
    with pytest.raises(UnusableSample, match="sample 0: int is given; this model takes texts"):
        decode([1], TEXT)
    with pytest.raises(UnusableSample, match="column 'body' is missing; it has text"):
        decode([{"text": "one"}], TEXT)


@pytest.mark.parametrize("given", [3.5, None, object(), iter([1])])
def test_what_can_be_no_sample_is_refused(given):
    with pytest.raises(OfclError, match="is given; this model takes"):
        collect(given, TABLE)


def test_an_array_of_another_shape_or_type_is_refused():
    with pytest.raises(OfclError, match="samples of shape 1 × 5 × 5 are given"):
        collect(np.zeros((2, 5, 5)), GREY)
    with pytest.raises(OfclError, match="values from -1 to -1"):
        collect(np.full((2, 2, 3), -1.0), GREY)
    with pytest.raises(OfclError, match="array of object is given"):
        collect(np.array([Path(), 1]), TABLE)


def test_arrays_of_single_images_in_a_list(run_of_images, images):
    model, x = ofcl.load(run_of_images), images.x_test[:3].numpy()
    expected = model.predict_proba(x)
    assert np.allclose(model.predict_proba(list(x)), expected, atol=1e-6)
    assert np.allclose(model.predict_proba([x[:1], x[1:2], x[2:]]), expected, atol=1e-6)


def test_an_array_of_several_images_in_a_list_is_not_cut_to_its_first(run_of_images, images):
    x = images.x_test[:3].numpy()
    with pytest.raises(OfclError, match="sample 1: an array of 2 images; expected one"):
        ofcl.load(run_of_images).predict([x[:1], x[1:]])
