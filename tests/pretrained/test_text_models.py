"""Pretrained models of texts: token ids as samples, an encoder of which a part learns."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import ofcl
from ofcl.data.dataset import Dataset
from ofcl.errors import OfclError
from ofcl.models import ModelSize, find_model
from ofcl.pretrained.tokens import find_tokeniser, tokenise
from ofcl.pretrained.tuning import Tuning
from ofcl.uncertainty.perturbations import MaskedCopies
from ofcl.update import travelling
from tests.support.tiny_encoder import write_encoder, write_texts

if any(importlib.util.find_spec(name) is None for name in ("transformers", "peft")):
    pytest.skip("needs transformers and peft", allow_module_level=True)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts.csv")


def settings(encoder: str, **more: object) -> dict[str, object]:
    return {
        "model": encoder, "clients": 2, "tasks": 2, "memory": 8, "tokens": 6, "steps": 1,
        "method": "cbr", "text": "text", "label": "label", **more,
    }  # fmt: skip


def test_texts_become_token_ids_of_one_length(encoder: str) -> None:
    found = tokenise(["red", "a green is blue red a"], encoder, length=5)
    assert found.tolist() == [[2, 5, 3, 0, 0], [2, 8, 6, 9, 3]]
    known = find_tokeniser(encoder)
    assert (known.padding, known.mask, known.name) == (0, 4, "hf:tiny-bert")


def test_copies_hide_tokens() -> None:
    x = torch.tensor([[2, 5, 6, 3, 0, 0]], dtype=torch.int32)
    copies = MaskedCopies(0.5, 50, mask=4)(x, torch.Generator().manual_seed(0))
    assert copies.dtype == torch.int32
    assert (copies[:, 0, 0] == 2).all()
    assert (copies[:, 0, 4:] == 0).all()
    assert 15 < (copies[:, 0, 1] == 4).sum() < 35


def test_padding_changes_nothing(encoder: str) -> None:
    size = ModelSize((6,), 2, tuning=Tuning("head"))
    model = find_model(encoder).build(size).eval()
    short, long = (torch.tensor(tokenise(["red a"], encoder, length=n)) for n in (4, 9))
    assert torch.allclose(model(short), model(long), atol=1e-5)


@pytest.mark.parametrize("tune", ["head", "lora", "last:1"])
def test_what_travels(encoder: str, tune: str) -> None:
    model = find_model(encoder).build(ModelSize((6,), 3, tuning=Tuning(tune, rank=1)))
    names = set(travelling(model, statistics=True))
    wanted = {"head": (), "lora": ("lora_", "LayerNorm"), "last:1": ("layer.1.",)}[tune]
    assert all(name.startswith("head.") or any(w in name for w in wanted) for name in names)
    assert len(names) > 2 or tune == "head"


@pytest.mark.parametrize("method", ["cbr", "bi"])
def test_a_run_over_texts_and_its_model(encoder: str, table: Path, method: str) -> None:
    out = table.parent / "run"
    result = ofcl.run(str(table), **settings(encoder, method=method), out=out)
    assert np.isfinite(result.A)
    model = ofcl.load(out, embedder=encoder)
    assert model.predict(["red red", "blue"]).shape == (2,)
    assert model.predict({"text": "a a"}) in model.labels
    assert model.uncertainty(["red red"]).shape == (1,)
    assert "tokens are read by hf:tiny-bert" in model.description.samples.words()


def test_a_stream_of_texts(encoder: str) -> None:
    words = ("red", "green")
    items = [(f"{words[n % 2]} is", words[n % 2]) for n in range(12)]
    result = ofcl.run(
        streams=[items, items], test=items[:4], model=encoder, tokens=6, steps=1, memory=4
    )
    assert np.isfinite(result.A)


def test_refusals(encoder: str, table: Path) -> None:
    x, y = torch.zeros(24, 1, 12, 12, dtype=torch.uint8), torch.arange(24) % 4
    images = Dataset("pictures", "image", x, y, x, y, tuple("abcd"))
    plain = {"clients": 2, "tasks": 2, "memory": 8}
    with pytest.raises(OfclError, match="is a model of texts, and 'pictures' has images: use"):
        ofcl.run(images, model=encoder, **plain)
    with pytest.raises(OfclError, match="takes texts of at most 12 tokens, not 20"):
        ofcl.run(str(table), **settings(encoder, tokens=20))
    with pytest.raises(OfclError, match="mlp cannot learn from token ids"):
        ofcl.run(str(table), **settings("mlp", embedder=f"tokens:{encoder}"))
    with pytest.raises(OfclError, match="there is no folder '.*gone' with the weights"):
        ofcl.run(str(table), **settings("hf:./gone"))


def test_a_graph_of_token_ids_is_refused(encoder: str, table: Path, tmp_path: Path) -> None:
    from ofcl.inference.torch_export import export_torch

    made = ofcl.Run(ofcl.Settings(dataset=str(table), **settings(encoder, limit=1)))
    for _ in made:
        pass
    with pytest.raises(OfclError, match="its tokeniser cannot be exported"):
        export_torch(made.bundle(), tmp_path / "model.pt2")
