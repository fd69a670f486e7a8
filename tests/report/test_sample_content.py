"""Samples that are no images are shown by their texts, or by numbers."""

import numpy as np
import pytest

import ofcl
from ofcl.report.memory_samples import view_memories
from ofcl.report.recorded_runs import read_experiments
from ofcl.storage.checkpoint import load_checkpoint
from tests.conftest import TINY

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once


def test_vectors_show_their_first_numbers(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", method="er", **TINY)
    (experiment,) = read_experiments([tmp_path])
    sample = view_memories(experiment.runs[0], most=100)[0].samples[0]
    assert len(sample.text.split()) == 8
    assert sample.uncertainty is None


def test_texts_are_found_by_their_number(tmp_path, monkeypatch):
    def encode(texts):  # a text's vector says which it is
        return np.array([[float(text.split()[-1]), "cats" in text] for text in texts], np.float32)

    monkeypatch.setattr("ofcl.data.files.embeddings.load_encoder", lambda embedder: encode)
    rows = [f"something about {'cats' if n % 2 else 'dogs'} {n},{'cats' if n % 2 else 'dogs'}"
            for n in range(80)]  # fmt: skip
    (tmp_path / "texts.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    monkeypatch.setenv("OFCL_DATA", str(tmp_path / "data"))
    values = {"dataset": str(tmp_path / "texts.csv"), "text": "text", "label": "label", "tasks": 2,
              "clients": 2, "memory": 8, "burn_in": 1, "method": "cbr", "limit": 2,
              "batch_size": 5, "embedder": "minilm"}  # fmt: skip
    ofcl.run(out=tmp_path / "run", **values)
    (experiment,) = read_experiments([tmp_path / "run"])
    for memory in view_memories(experiment.runs[0], most=100):
        state = load_checkpoint(tmp_path / "run" / "checkpoint", print).state["engine"]["clients"]
        held = state[memory.client]["learner"]["memory"]
        numbers = dict(zip(held["samples"]["id"].tolist(), held["x"][:, 0].tolist(), strict=True))
        for sample in memory.samples:
            assert sample.text == f"something about {sample.label} {numbers[sample.number]:.0f}"
    # When the file has changed, or is gone, numbers are shown instead of others' texts.
    for changed in (rows[3:] + rows[:2], rows[:30]):
        (tmp_path / "texts.csv").write_text("text,label\n" + "\n".join(changed) + "\n")
        samples = view_memories(experiment.runs[0], most=100)[0].samples
        assert not any("about" in sample.text for sample in samples)
    (tmp_path / "texts.csv").unlink()
    assert view_memories(experiment.runs[0], most=1)[0].samples[0].text
