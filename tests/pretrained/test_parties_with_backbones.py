"""Parties that learn a pretrained model: adapters travel, weights are compared."""

import importlib.util

import numpy as np
import pytest

import ofcl
from ofcl import OfclError
from ofcl.data.live.vocabulary import AssignedVocabulary
from ofcl.events import Round
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.terms import Terms, travelling_settings
from ofcl.models.backbone import find_bytes
from ofcl.own_parts.permission import check_allowed_at_party
from tests.pretrained.test_adapters import SIDE, images, write_weights
from tests.support.federation import PARTIES, SMALL, InProcess, hosted, member

if any(importlib.util.find_spec(name) is None for name in ("timm", "peft")):
    pytest.skip("needs timm and peft", allow_module_level=True)

NAME = "timm:test_resnet"


@pytest.fixture
def data(tmp_path):
    made = images(64)
    path = tmp_path / "images.npz"
    np.savez(path, x=made.x_train.numpy(), y=made.y_train.numpy())
    return str(path)


def source(tmp_path, data, seed):
    weights = write_weights(tmp_path, seed=seed).partition("@")[2]
    values = {"dataset": data, "weights": weights, "allow": NAME}
    return open_source(values, False, lambda _: None)


def host(tmp_path, data):
    members = {k: member(tmp_path, k, source(tmp_path, data, 0)) for k in range(3)}
    settings = {**SMALL, "model": write_weights(tmp_path), "backbone_side": SIDE, "tasks": 2,
                "burn_in": 0, "q": 2, "limit": 2}  # fmt: skip
    return hosted(tmp_path, InProcess(members), settings)[0]


def test_adapters_alone_travel_between_parties(tmp_path, data):
    started = host(tmp_path, data)
    rounds = [event for event in started if isinstance(event, Round)]
    assert "tune = lora" in started.participants.backbone
    names = set(started.server.model)
    assert any("lora_A" in name for name in names)
    assert not any("base_layer" in name or "running" in name for name in names)
    whole = find_bytes(NAME, write_weights(tmp_path).partition("@")[2])
    assert rounds[0].bytes_sent < 0.5 * 3 * whole
    model = ofcl.load(tmp_path / PARTIES[0], embedder=write_weights(tmp_path))
    assert model.description.network.name == NAME


def test_a_party_with_other_weights_is_refused(tmp_path, data):
    started = host(tmp_path, data)
    announced = travelling_settings(started.settings)
    assert announced["model"] == NAME  # where the server has its weights is nobody's business
    assert "weights" not in announced
    for seed in (0, 7):
        here = source(tmp_path, data, seed)
        terms = Terms(announced, 3, here.labels, len(here.labels), here.samples())
        vocabulary = AssignedVocabulary(here.labels)
        if seed == 0:
            assert here.client(terms, 0, vocabulary).settings.backbone == announced["backbone"]
            continue
        with pytest.raises(OfclError, match="weights of 'timm:test_resnet' here have the checksum"):
            here.client(terms, 0, vocabulary)


def test_a_party_allows_a_network_by_name():
    with pytest.raises(
        OfclError, match="--set allow=timm:test_resnet, or .*; and say where its weights"
    ):
        check_allowed_at_party({"model": NAME}, ())
    check_allowed_at_party({"model": NAME}, (NAME,))
    check_allowed_at_party({"model": "efficientnet-lite0"}, ())
