"""Texts in tables."""

import json

import pytest
import torch

from ofcl import Reading, load_dataset

TEXTS = ("a cat sleeps", "a dog barks", "cats purr", "dogs run", "one more cat", "one more dog")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Texts that are embedded once, and the folder that keeps their vectors."""
    folder = tmp_path_factory.mktemp("texts")
    rows = "".join(f'"{text}, indeed",{"cat" if "cat" in text else "dog"}\n' for text in TEXTS)
    (folder / "t.csv").write_text(f"text,label\n{rows}")
    return load_dataset(str(folder / "t.csv"), Reading(root=folder, embedder="minilm")), folder


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
