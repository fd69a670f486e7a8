"""ONNX files: they answer as PyTorch does, and say all that one needs to use them."""

import json
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from ofcl.bundle.description import from_json
from ofcl.bundle.open_bundle import open_bundle
from ofcl.data.files.column_codes import ColumnCode
from ofcl.errors import OfclError
from ofcl.inference import onnx_export
from ofcl.inference.onnx_export import export_onnx
from ofcl.inference.prepared_network import facts, made_up_samples
from tests.support.made_up_bundles import (
    COLOUR,
    GREY,
    LABELS,
    MIXED,
    TABLE,
    TEXTS,
    VECTORS,
    by_nearest_mean,
    made_up_bundle,
)

MODELS = [
    ("mlp", TABLE),
    ("mlp", VECTORS),
    ("mlp", replace(VECTORS, mean=(1.0,) * 5, scale=(2.0,) * 5)),
    ("mlp", TEXTS),
    ("mlp", GREY),
    ("convnet", GREY),
    ("convnet", COLOUR),
    ("slim-resnet18", GREY),
    ("slim-resnet18", COLOUR),
    ("acgan", COLOUR),
]
INPUTS = {"image": "images", "table": "rows", "vector": "vectors", "text": "vectors"}


def answers(path, samples, kind):
    return onnxruntime.InferenceSession(path).run(None, {INPUTS[kind]: samples})


@pytest.mark.parametrize(("network", "form"), MODELS, ids=lambda v: getattr(v, "kind", v))
def test_it_answers_as_the_model_does(tmp_path, network, form):
    bundle, path = made_up_bundle(network, form), tmp_path / "model.onnx"
    assert export_onnx(bundle, path) < 1e-5
    onnx.checker.check_model(onnx.load(path), full_check=True)
    model = open_bundle(bundle)
    for count in (1, 2, 7, 40):
        samples = made_up_samples(form, count)
        logits, probabilities = answers(path, samples, form.kind)
        if form.kind == "text":
            expected = model.answer_prepared(torch.from_numpy(samples), measure=False)[0]
        else:
            expected = model.predict_proba(samples)
        assert probabilities.shape == logits.shape == (count, len(LABELS))
        assert np.abs(probabilities - expected).max() < 1e-5
        again = torch.from_numpy(logits).softmax(1).numpy()
        assert np.abs(probabilities - again).max() < 1e-6
    assert np.ptp(probabilities, axis=0).max() > 0.01  # samples are told apart


def test_its_metadata_are_all_one_needs(tmp_path):
    bundle = made_up_bundle()
    export_onnx(bundle, tmp_path / "model.onnx")
    stored = onnxruntime.InferenceSession(tmp_path / "model.onnx").get_modelmeta()
    found = stored.custom_metadata_map
    assert json.loads(found["labels"]) == list(LABELS)
    assert json.loads(found["columns"]) == ["age", "pulse"]
    assert (found["kind"], found["input"]) == ("table", "rows")
    assert from_json(found["model.json"]) == bundle.description
    assert stored.producer_name == "ofcl"


def test_cells_that_are_no_numbers_are_described(tmp_path):
    bundle = made_up_bundle(form=MIXED)
    export_onnx(bundle, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    names = json.loads(session.get_modelmeta().custom_metadata_map["numbers"])
    assert names == [
        "age", "sex = f", "sex = m", "sex = another", "seen in days since 1970",
        "seen, sine of the year", "seen, cosine of the year", "smokes", "smokes is empty",
    ]  # fmt: skip
    days = 19816  # 2024-04-03
    angle = 2 * np.pi * days / 365.2425
    row = np.array([[61, 0, 1, 0, days, np.sin(angle), np.cos(angle), 0.5, 1]])
    cells = {"age": 61, "sex": "m", "seen": "2024-04-03", "smokes": None}
    expected = open_bundle(bundle).predict_proba(cells)
    assert np.abs(answers(tmp_path / "model.onnx", row, "table")[1][0] - expected).max() < 1e-5


def test_times_of_the_day_have_other_names_than_dates():
    codes = (
        ColumnCode("at", "date", format="%H:%M", times=True, gaps=True),
        ColumnCode("seen", "date", format="iso", times=True),
    )
    description = made_up_bundle(form=MIXED).description
    form = replace(MIXED, columns=("at", "seen"), codes=codes)
    names = json.loads(facts(replace(description, samples=form))["numbers"])
    assert names == [
        "at, part of the day", "at, sine of the day", "at, cosine of the day", "at is empty",
        "seen in days since 1970", "seen, sine of the year", "seen, cosine of the year",
        "seen, sine of the day", "seen, cosine of the day",
    ]  # fmt: skip
    assert len(names) == sum(code.width for code in codes)


@pytest.mark.parametrize(("network", "form"), [("mlp", TABLE), ("slim-resnet18", COLOUR)])
def test_the_nearest_class_mean(tmp_path, network, form):
    bundle = by_nearest_mean(made_up_bundle(network, form))
    export_onnx(bundle, tmp_path / "model.onnx")
    samples = made_up_samples(form, 7)
    logits, probabilities = answers(tmp_path / "model.onnx", samples, form.kind)
    assert np.abs(probabilities - open_bundle(bundle).predict_proba(samples)).max() < 1e-4
    assert (logits[:, 1] == -np.inf).all()  # a class without a prototype
    assert (probabilities[:, 1] == 0).all()


def test_the_embedder_of_texts_is_described(tmp_path):
    export_onnx(made_up_bundle(form=TEXTS), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    said = session.get_modelmeta().custom_metadata_map["preparation"]
    assert "'some/embedder', version 'v7'" in said
    assert "'query: '" in said


def test_rows_are_standardised_in_64_bits(tmp_path):
    """A time in seconds and its change by half a second are one number in 32 bits."""
    export_onnx(made_up_bundle(), tmp_path / "model.onnx")
    rows = np.array([[1.7e9 - 2, 70.0], [1.7e9 - 2.5, 70.0]])
    assert len(np.unique(rows.astype(np.float32), axis=0)) == 1
    logits, _ = answers(tmp_path / "model.onnx", rows, "table")
    assert np.abs(logits[0] - logits[1]).max() > 0.1


def test_numbers_beyond_32_bits_are_no_infinity(tmp_path):
    form = replace(TABLE, scale=(1e-30, 9.0))
    export_onnx(made_up_bundle(form=form), tmp_path / "model.onnx")
    rows = np.array([[3e38, 70.0]])
    logits, _ = answers(tmp_path / "model.onnx", rows, "table")
    model = open_bundle(made_up_bundle(form=form))
    assert np.allclose(logits, model.logits(model.prepare(rows)).numpy(), rtol=1e-5)
    assert np.isfinite(logits).all()


def test_no_path_of_this_machine_is_in_it(tmp_path):
    export_onnx(made_up_bundle("slim-resnet18", GREY), tmp_path / "model.onnx")
    content = (tmp_path / "model.onnx").read_bytes()
    assert b".py" not in content
    assert str(tmp_path).encode() not in content


def test_a_file_that_answers_otherwise_is_not_written(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_text("the old one")
    right = onnx_export.expected_answers

    def wrong(model, samples):
        return right(model, samples)._replace(logits=right(model, samples).logits + 0.001)

    monkeypatch.setattr(onnx_export, "expected_answers", wrong)
    with pytest.raises(OfclError, match=r"answers otherwise than in PyTorch \(by 0.001\)"):
        export_onnx(made_up_bundle("convnet", GREY), path)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["the old one"]


def test_packages_that_are_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert export_onnx(made_up_bundle(), tmp_path / "model.onnx") is None
    assert (tmp_path / "model.onnx").exists()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(OfclError, match="pip install 'ofcl\\[onnx\\]'"):
        export_onnx(made_up_bundle(), tmp_path / "other.onnx")


def test_a_model_too_large_for_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_export, "MOST_BYTES", 100)
    with pytest.raises(OfclError, match="an ONNX file holds at most 100"):
        export_onnx(made_up_bundle(), tmp_path / "model.onnx")
