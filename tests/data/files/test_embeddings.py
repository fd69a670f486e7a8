"""Texts become vectors once; the cache survives interruption and is never wrong."""

import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from ofcl.data.files import embeddings
from ofcl.data.files.embedders import batch_size, find_embedder
from ofcl.data.files.embeddings import embed
from ofcl.errors import OfclError

TEXTS = ["a cat sat", "stocks fell", "the cat purred"]


@pytest.fixture
def model(monkeypatch):
    """An encoder that counts letters, in place of a network; it tells what it was asked."""
    asked = []

    def encode(texts):
        asked.append(list(texts))
        return np.array([[len(t), t.count("a")] for t in texts], dtype=np.float32)

    monkeypatch.setattr(embeddings, "load_encoder", lambda embedder: encode)
    return asked


def test_a_text_is_embedded_once(tmp_path, model):
    first = embed(TEXTS, "some/model", tmp_path)
    assert first.tolist() == [[9, 3], [11, 0], [14, 1]]
    again = embed(["stocks fell", "new", "stocks fell"], "some/model", tmp_path)
    assert again.tolist() == [[11, 0], [3, 0], [11, 0]]
    assert model == [["the cat purred", "stocks fell", "a cat sat"], ["new"]]


def test_the_paper_s_embedder_has_its_prefix_and_limit(tmp_path, model):
    embed(["hello"], "e5-small-v2", tmp_path)
    embed(["hello"], "intfloat/e5-small-v2", tmp_path)  # the same by its full name
    assert model == [["query: hello"]]
    assert find_embedder("e5-small-v2").tokens == 512


def test_models_and_settings_do_not_share_vectors(tmp_path, model):
    embed(["hello"], "a/model", tmp_path)
    embed(["hello"], "b/model", tmp_path)
    assert len(model) == 2
    assert len(list((tmp_path / "embeddings").glob("*.sqlite"))) == 2


def test_a_folder_is_known_by_what_it_holds(tmp_path, model):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    embed(["hello"], str(folder), tmp_path)
    embed(["hello"], str(folder), tmp_path)
    assert len(model) == 1
    (folder / "config.json").write_text('{"other": 1}')
    embed(["hello"], str(folder), tmp_path)
    assert len(model) == 2


def test_an_interrupted_embedding_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "CHUNK", 2)
    asked = []

    def interrupted(texts):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.extend(texts)
        return np.ones((len(texts), 3), dtype=np.float32)

    many = [f"{'x' * n}" for n in range(1, 6)]
    monkeypatch.setattr(embeddings, "load_encoder", lambda embedder: interrupted)
    with pytest.raises(KeyboardInterrupt):
        embed(many, "m", tmp_path)
    left = []

    def encode(texts):
        left.extend(texts)
        return np.ones((len(texts), 3), dtype=np.float32)

    monkeypatch.setattr(embeddings, "load_encoder", lambda embedder: encode)
    assert embed(many, "m", tmp_path).shape == (5, 3)
    assert sorted(asked + left) == many
    assert set(asked) & set(left) == set()


def test_a_kill_in_the_middle_leaves_a_usable_cache(tmp_path):
    code = """
import os, sys
import numpy as np
from pathlib import Path
from ofcl.data.files import embeddings
embeddings.CHUNK = 1
calls = []
def encode(texts):
    calls.append(1)
    if len(calls) == 3:
        os.kill(os.getpid(), 9)
    return np.ones((len(texts), 2), dtype=np.float32)
embeddings.load_encoder = lambda embedder: encode
embeddings.embed(["a", "bb", "ccc", "dddd"], "m", Path(sys.argv[1]))
"""
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == -9
    (file,) = (tmp_path / "embeddings").glob("*.sqlite")
    with sqlite3.connect(file) as cache:
        assert cache.execute("SELECT COUNT(*) FROM vectors").fetchone() == (2,)


def test_a_damaged_cache_is_named(tmp_path, model):
    embed(["hello"], "m", tmp_path)
    (file,) = (tmp_path / "embeddings").glob("*.sqlite")
    file.write_bytes(b"not a database" * 100)
    with pytest.raises(OfclError, match=f"{file.name}.*delete"):
        embed(["hello"], "m", tmp_path)


def test_a_model_that_cannot_be_had_says_what_to_do(tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # the variable is read once, early
    with pytest.raises(OfclError, match="nobody/nothing.*--embedder minilm"):
        embed(["hello"], "nobody/nothing", tmp_path)


def test_without_network_the_hub_is_asked_once(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    pytest.importorskip("sentence_transformers")
    asked = []

    class Session:
        def head(self, address, timeout):
            asked.append((address, timeout))
            raise OSError("no route to host")

    monkeypatch.setattr(hub, "get_session", Session)
    problem = "cannot be loaded .*no route to host.*--embedder minilm"
    with pytest.raises(OfclError, match=problem):
        embed(["hello"], "nobody/nothing", tmp_path)
    assert len(asked) == 1


def test_progress_counts_texts(tmp_path, model, monkeypatch):
    monkeypatch.setattr(embeddings, "CHUNK", 2)
    counted = []

    def track(items, what):
        for item in items:
            counted.append((what, len(items), len(model)))
            yield item

    embed([*TEXTS, "dogs", "birds sing"], "m", tmp_path, track)
    # What is done, the number of texts, and the chunks that were embedded when a text came.
    assert counted == [("embedding 5 texts", 5, chunks) for chunks in (0, 0, 1, 1, 2)]
    assert [len(chunk) for chunk in model] == [2, 2, 1]


def test_a_cpu_embeds_few_long_texts_at_once():
    assert batch_size(["x" * 5000], 256) == 4
    assert batch_size(["x" * 5000], None) == 1
    assert batch_size(["x" * 40] * 64, 256) == 32


def test_minilm_needs_no_network_and_knows_what_is_alike(tmp_path):
    vectors = embed(TEXTS, "minilm", tmp_path)
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    alike = vectors @ vectors.T
    assert alike[0, 2] > 0.4 > alike[0, 1]
