"""Gradient steps of pretrained models can be captured and replayed: seen on a CPU."""

import importlib.util
from pathlib import Path

import pytest

import ofcl
from tests.pretrained.test_adapters import images, settings, tiny
from tests.pretrained.test_text_models import encoder, table
from tests.pretrained.test_text_models import settings as settings_of_texts
from tests.support.capturable import watch_captures

if any(importlib.util.find_spec(name) is None for name in ("timm", "peft", "transformers")):
    pytest.skip("needs timm, peft and transformers", allow_module_level=True)

__all__ = ["encoder", "table", "tiny"]

QUICK = {"burn_in": 0, "q": 2, "batch_size": 2, "method": "er", "tasks": 1, "replay": "all"}


@pytest.mark.parametrize("tune", ["head", "lora", "last:1", "all"])
def test_steps_on_images_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch, tiny: str, tune: str
) -> None:
    compared = watch_captures(monkeypatch)
    ofcl.run(images(), **settings(tiny, tune=tune) | QUICK)
    assert len(compared) >= 3


@pytest.mark.parametrize("tune", ["head", "lora", "last:1", "all"])
def test_steps_on_texts_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch, encoder: str, table: Path, tune: str
) -> None:
    from transformers import masking_utils

    # While a GPU captures, transformers looks at no values of a mask, and says so itself.
    monkeypatch.setattr(masking_utils, "is_tracing", lambda *_: True)
    compared = watch_captures(monkeypatch)
    ofcl.run(str(table), **settings_of_texts(encoder, tune=tune) | QUICK)
    assert len(compared) >= 3
