"""Samples of requests, for forms that the tests against the real server do not have."""

import io
import json
from dataclasses import replace

import pytest
from PIL import Image

import ofcl
from ofcl.data.files.embedders import Embedder
from ofcl.data.sample_forms import ImageForm, TextForm
from ofcl.errors import OfclError
from ofcl.inference.service.answer_json import model_facts
from ofcl.inference.service.replies import Refused
from ofcl.inference.service.request_limits import Limits
from ofcl.inference.service.request_samples import SampleDecoder, Upload
from tests.conftest import TINY

TEXTS = SampleDecoder(TextForm(Embedder("none"), 4, column="note"), False, 10, 100, 9)


def test_texts_as_strings_rows_and_tables():
    given = json.dumps({"samples": ["a", {"note": "b", "more": 1}]}).encode()
    assert TEXTS.from_json(given) == ["a", "b"]
    table = Upload("t.csv", 'id,note\n1,"c, d"\n2,é\n'.encode())
    assert TEXTS.from_files([table, table]) == ["c, d", "é"] * 2


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        ("\ud800", "half a character"),
        ("a" * 1_000_001, "1000001 letters"),
        (7, "int is given; this model takes texts"),
        ({"text": "a"}, "column 'note' is missing"),
    ],
)
def test_texts_that_do_not_fit(sample, problem):
    with pytest.raises(OfclError, match=problem):
        TEXTS.from_json(json.dumps({"samples": [sample]}).encode())


def test_large_samples_are_fewer_in_a_request():
    limits = Limits(samples=1000, queue=5000)
    assert limits.samples_of((1, 28, 28), 10) == 1000
    assert limits.samples_of((3, 1024, 1024), 10) == 21  # 256 MiB of 12 MiB each
    assert limits.samples_of((3, 10_000, 10_000), 10) == 1
    assert limits.queue_of((3, 1024, 1024), 10) == 21


def photo():
    file = io.BytesIO()
    Image.new("RGB", (30, 20), (255, 255, 255)).save(file, "JPEG")
    return Upload("a.jpg", file.getvalue())


def test_decoding_ends_when_the_time_is_up():
    decoder = SampleDecoder(ImageForm((1, 4, 4), (0.5,), (0.5,)), True, 10, 600, seconds=0)
    with pytest.raises(Refused, match="1 images took too long"):
        decoder.from_files([photo()] * 3)


def test_images_are_resized_if_that_was_asked_for():
    form = ImageForm((1, 4, 4), (0.5,), (0.5,))
    pixels = SampleDecoder(form, True, 10, 600, 9).from_files([photo()])
    assert pixels.shape == (1, 1, 4, 4)
    assert pixels.min() == 255
    with pytest.raises(OfclError, match="30 × 20 pixels"):
        SampleDecoder(form, False, 10, 600, 9).from_files([photo()])


def test_a_folder_of_an_embedder_is_not_told(vector_model):
    description = ofcl.load(vector_model).description
    form = TextForm(Embedder("/home/me/secret/embedder"), 8)
    facts = model_facts(replace(description, samples=form))
    assert facts["samples"]["embedder"]["model"] == "embedder"
    assert "/home" not in json.dumps(facts)


@pytest.fixture(scope="module")
def mixed_model(tmp_path_factory):
    """A model of a table with numbers and colours."""
    folder = tmp_path_factory.mktemp("mixed")
    rows = [f"{n % 4},{'red' if n % 2 else 'blue'},kind {n % 4}" for n in range(80)]
    (folder / "learned.csv").write_text("\n".join(["size,colour,label", *rows]))
    settings = {**TINY, "tasks": 2, "dataset": str(folder / "learned.csv"), "label": "label"}
    ofcl.run(out=folder / "run", **settings)
    return ofcl.load(folder / "run")


def test_rows_with_words_are_passed_on_as_they_are(mixed_model):
    form = mixed_model.description.samples
    assert form.codes
    decoder = SampleDecoder(form, False, 10, 100, 9)
    row = {"size": 1, "colour": "red"}
    given = {"samples": [{**row, "more": 1}, [1, "red"]]}
    rows = decoder.from_json(json.dumps(given).encode())
    assert rows == [row, row]
    assert mixed_model.answer(rows).probabilities.shape == (2, 4)
    table = Upload("t.csv", b"colour,id,size\nred,9,1\n")
    assert decoder.from_files([table]) == [{"size": "1", "colour": "red"}]


@pytest.mark.parametrize(
    "sample", [{"size": 1}, [1], "red", 7, [1, "red", 3], {"size": "x", "colour": "red"}]
)
def test_rows_with_words_that_do_not_fit(mixed_model, sample):
    decoder = SampleDecoder(mixed_model.description.samples, False, 10, 100, 9)
    with pytest.raises(OfclError, match="sample 0"):
        decoder.from_json(json.dumps({"samples": [sample]}).encode())


def test_many_empty_lists_are_refused_before_they_are_made():
    form = ImageForm((1, 4, 4), (0.5,), (0.5,))
    decoder = SampleDecoder(form, False, 10, 600, 9)
    with pytest.raises(Refused, match="too many lists and objects"):
        decoder.from_json(b'{"samples": [' + b"[]," * 200_000 + b"[]]}")
    full = json.dumps({"samples": [[[[0]] * 4] * 4] * 10}).encode()
    assert full.count(b"[") == 211
    with pytest.raises(OfclError, match="lists of shape 4 × 4 × 1"):
        SampleDecoder(ImageForm((3, 4, 4), (0.5,) * 3, (0.5,) * 3), False, 10, 600, 9).from_json(
            full
        )
    assert decoder.from_json(full).shape == (10, 1, 4, 4)
