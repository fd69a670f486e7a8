"""The cost of pretrained models: bfloat16 on a GPU, activations that are computed again."""

import importlib.util
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn

import ofcl
from ofcl import Run, make_settings
from ofcl.methods import replay
from ofcl.models import ModelSize, find_model
from ofcl.pretrained.tuning import Tuning
from tests.pretrained.test_adapters import build, images, settings, tiny, write_weights
from tests.pretrained.test_text_models import encoder, table
from tests.pretrained.test_text_models import settings as settings_of_texts

if any(importlib.util.find_spec(name) is None for name in ("timm", "peft", "transformers")):
    pytest.skip("needs timm, peft and transformers", allow_module_level=True)

__all__ = ["encoder", "table", "tiny"]


def stored(model: nn.Module, x: torch.Tensor) -> tuple[int, dict[str, torch.Tensor]]:
    """The bytes that a forward keeps for the backward, without the weights, and the gradients."""
    weights = {value.untyped_storage()._cdata for value in model.state_dict().values()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(x).pow(2).sum()
    found = sum(kept.values())
    loss.backward()
    return found, {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("tune", ["lora", "all"])
@pytest.mark.parametrize("name", ["test_vit", "test_resnet"])
def test_images_need_less_memory_if_activations_are_computed_again(
    tmp_path: Path, name: str, tune: str
) -> None:
    path, x = write_weights(tmp_path, name), torch.randn(4, 1, 12, 12)
    plain, of_plain = stored(build(path, tune), x)
    less, of_less = stored(build(path, tune, recompute=True), x)
    assert less < 0.8 * plain
    assert of_less.keys() == of_plain.keys()
    assert all(torch.allclose(g, of_plain[n], atol=1e-4) for n, g in of_less.items())


def test_texts_need_less_memory_if_activations_are_computed_again(encoder: str) -> None:
    found, x = [], torch.randint(5, 9, (8, 12), dtype=torch.int32)
    for recompute in (False, True):
        torch.manual_seed(1)
        how = Tuning("lora", recompute=recompute)
        found.append(stored(find_model(encoder).build(ModelSize((12,), 3, tuning=how)), x))
    (plain, of_plain), (less, of_less) = found
    assert less < 0.7 * plain
    assert of_less.keys() == of_plain.keys()
    assert all(torch.allclose(g, of_plain[n], atol=1e-5) for n, g in of_less.items())


def test_a_run_ends_alike_if_activations_are_computed_again(tiny: str) -> None:
    models = []
    for recompute in (False, True):
        run = Run(make_settings(settings(tiny, tune="all", recompute=recompute, limit=2)), images())
        list(run)
        models.append(run.server.model)
    for name, value in models[0].items():
        assert torch.allclose(value, models[1][name], atol=1e-4), name


@pytest.mark.parametrize("protocol", ["strong", "sound"])
def test_gradient_steps_are_in_bfloat16_where_a_gpu_takes_them(
    monkeypatch: pytest.MonkeyPatch, tiny: str, encoder: str, table: Path, protocol: str
) -> None:
    """What is asked for is seen on a CPU, which computes in float32."""
    asked = []

    def computing_in(precision: torch.dtype, device: torch.device) -> nullcontext[None]:
        asked.append(precision)
        return nullcontext()

    monkeypatch.setattr(replay, "computing_in", computing_in)
    for data, given in ((images(), settings(tiny)), (str(table), settings_of_texts(encoder))):
        asked.clear()
        ofcl.run(data, **{**given, "protocol": protocol, "limit": 2})
        assert set(asked) == {torch.bfloat16 if protocol == "strong" else torch.float32}


def test_recomputing_is_refused_by_networks_that_cannot(
    monkeypatch: pytest.MonkeyPatch, tiny: str
) -> None:
    made = type(build(tiny).body.network)
    monkeypatch.setattr(made, "set_grad_checkpointing", None)
    with pytest.raises(ofcl.OfclError, match="cannot recompute its activations; leave out recomp"):
        build(tiny, recompute=True)
