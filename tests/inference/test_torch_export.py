"""Programs of torch.export: they predict without ofcl, from raw samples."""

import json

import numpy as np
import pytest
import torch

from ofcl.bundle.description import from_json
from ofcl.bundle.open_bundle import open_bundle
from ofcl.inference.prepared_network import made_up_samples
from ofcl.inference.torch_export import export_torch
from tests.support.made_up_bundles import (
    COLOUR,
    GREY,
    LABELS,
    TABLE,
    by_nearest_mean,
    made_up_bundle,
)

MODELS = [("mlp", TABLE), ("convnet", GREY), ("slim-resnet18", COLOUR)]


@pytest.mark.parametrize(("network", "form"), MODELS, ids=lambda v: getattr(v, "kind", v))
def test_it_is_loaded_and_predicts(tmp_path, capfd, network, form):
    bundle, path = made_up_bundle(network, form), tmp_path / "model.pt2"
    export_torch(bundle, path)
    assert capfd.readouterr() == ("", "")  # no warnings of libraries
    facts = {"labels": "", "model.json": "", "kind": ""}
    program = torch.export.load(path, extra_files=facts).module()
    assert json.loads(facts["labels"]) == list(LABELS)
    assert from_json(facts["model.json"]) == bundle.description
    model = open_bundle(bundle)
    for count in (1, 2, 7):
        samples = made_up_samples(form, count)
        logits, probabilities = program(torch.from_numpy(samples))
        assert logits.shape == (count, len(LABELS))
        assert np.abs(probabilities.numpy() - model.predict_proba(samples)).max() < 1e-5
    assert b".py" not in path.read_bytes()  # no path of this machine


def test_the_nearest_class_mean(tmp_path):
    bundle = by_nearest_mean(made_up_bundle("convnet", GREY))
    export_torch(bundle, tmp_path / "model.pt2")
    samples = made_up_samples(GREY, 5)
    _, probabilities = torch.export.load(tmp_path / "model.pt2").module()(torch.from_numpy(samples))
    expected = open_bundle(bundle).predict_proba(samples)
    assert np.abs(probabilities.numpy() - expected).max() < 1e-5
