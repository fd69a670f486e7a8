"""The service answers as the model does, whatever form the samples have."""

import base64
import io
import json

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

import ofcl
from tests.conftest import make_blobs, make_images
from tests.inference.service.conftest import served
from tests.support.commands import in_one_process

pytestmark = in_one_process


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def pictures():
    return make_images().x_test.numpy()[::6, 0]  # (4, 8, 8), one of each class


def check(answers, model, samples):
    """Compares answers of the service with those of the model itself."""
    wanted = ofcl.load(model).answer(samples)
    labels = ofcl.load(model).labels
    assert [answer["label"] for answer in answers] == [labels[c] for c in wanted.classes]
    for answer, probabilities, unsure in zip(answers, *wanted, strict=True):
        order = np.argsort(-probabilities)
        assert [top["label"] for top in answer["top"]] == [labels[c] for c in order[:3]]
        assert answer["probability"] == pytest.approx(probabilities.max(), abs=1e-5)
        assert answer["uncertainty"] == pytest.approx(unsure, rel=1e-3, abs=1e-6)


def test_images_as_lists_as_base64_and_as_files(images_served, image_model, pictures):
    files = [png(pixels) for pixels in pictures]
    with images_served.client() as client:
        by_lists = client.post("/predict", json={"samples": pictures.tolist()})
        coded = [base64.b64encode(file).decode() for file in files]
        by_base64 = client.post("/predict", json={"samples": coded})
        uploads = [("files", (f"{n}.png", file)) for n, file in enumerate(files)]
        by_files = client.post("/predict", files=uploads)
    for answer in (by_lists, by_base64, by_files):
        assert answer.status_code == 200
        check(answer.json(), image_model, pictures)


def test_vectors(small_served, vector_model):
    vectors = make_blobs().x_test.numpy()[::10]
    with small_served.client() as client:
        answer = client.post("/predict", json={"samples": vectors.tolist()})
        rows = client.post("/predict", json={"samples": [{"x": vectors[0].tolist()}]})
    check(answer.json(), vector_model, vectors)
    assert rows.json()[0]["label"] == answer.json()[0]["label"]


ROWS = [{"a": 0.1, "b": 0}, {"b": -2, "a": 2.05, "more": "ignored"}]


def as_parquet(rows):
    file = io.BytesIO()
    columns = {name: [row[name] for row in rows] for name in ("a", "b")}
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def test_rows_as_objects_as_lists_and_as_tables(table_served, table_model):
    lines = "\n".join(map(json.dumps, ROWS))
    tables = {"t.csv": b"b;a;note\n0;0.1;x\n-2;2.05;y\n", "t.jsonl": lines.encode(),
              "T.PARQUET": as_parquet(ROWS)}  # fmt: skip
    with table_served.client() as client:
        answers = [client.post("/predict", json={"samples": ROWS}),
                   client.post("/predict", json={"samples": [[0.1, 0], [2.05, -2]]})]  # fmt: skip
        answers += [
            client.post("/predict", files={"f": (name, data)}) for name, data in tables.items()
        ]
        both = client.post("/predict", files=[("f", item) for item in tables.items()])
    for answer in answers:
        assert answer.status_code == 200, answer.text
        check(answer.json(), table_model, ROWS)
    wanted = [answer["label"] for answer in answers[0].json()]
    assert [answer["label"] for answer in both.json()] == wanted * 3


def test_top_and_uncertainty_are_chosen(small_served):
    body = {"samples": [[0.0] * 8]}
    with small_served.client() as client:
        (answer,) = client.post("/predict?top=2&uncertainty=false", json=body).json()
        (all_,) = client.post("/predict?top=100", json=body).json()
        (none,) = client.post("/predict?top=0", json=body).json()
    assert answer["uncertainty"] is None
    assert len(answer["top"]) == 2
    assert answer["top"][0] == {key: answer[key] for key in ("label", "probability")}
    assert sum(top["probability"] for top in all_["top"]) == pytest.approx(1, abs=1e-5)
    assert none["top"] == []


def test_no_samples_no_answers(small_served):
    with small_served.client() as client:
        assert client.post("/predict", json={"samples": []}).json() == []


def test_the_description_keeps_the_settings_back(small_served):
    with small_served.client() as client:
        model = client.get("/model").json()
    assert model["labels"] == [f"class {n}" for n in range(6)]
    assert model["samples"]["length"] == 8
    assert model["limits"] == {
        "body_bytes": 65536,
        "samples": 20,
        "pixels": 25_000_000,
        "seconds": 1,
    }
    assert not {"settings", "fingerprint"} & set(model["learned"])


def test_health_and_openapi(small_served):
    with small_served.client() as client:
        assert client.get("/health").json() == {"live": True, "ready": True}
        paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/predict", "/model", "/health", "/metrics"}
    body = paths["/predict"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "multipart/form-data"}


def test_metrics_count_by_route_and_status(vector_model):
    with served(vector_model) as service, service.client() as client:
        for samples in ([[0.0] * 8] * 3, [[1.0] * 8], "wrong"):
            client.post("/predict", json={"samples": samples})
        client.get("/secret-patient-name")
        lines = client.get("/metrics").text.splitlines()
    assert 'ofcl_requests_total{route="/predict",status="200"} 2' in lines
    assert 'ofcl_requests_total{route="/predict",status="422"} 1' in lines
    assert 'ofcl_requests_total{route="other",status="404"} 1' in lines
    assert 'ofcl_request_seconds_count{route="/predict"} 3' in lines
    assert 'ofcl_request_seconds_bucket{route="/predict",le="+Inf"} 3' in lines
    assert {
        "ofcl_samples_total 4",
        "ofcl_queue_samples 0",
        "ofcl_requests_running 1",
        "ofcl_bodies_bytes 0",
    } <= set(lines)
    assert "patient" not in "\n".join(lines)
