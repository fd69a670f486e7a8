"""Runs with the field's methods: elsewhere, private, refused where they cannot work."""

import pytest
import torch

import ofcl
from ofcl.errors import OfclError
from ofcl.methods import METHODS
from ofcl.testing import TINY, make_blobs
from tests.engines.test_remote import locally, remotely

FIELD = ["der", "scr", "mir", "gdumb", "icarl", "lwf", "ewc"]
SHORT = {**TINY, "tasks": 2, "limit": 3, "burn_in": 0, "fitting_epochs": 2}


@pytest.mark.parametrize("method", FIELD)
def test_remote_clients_learn_bit_for_bit_as_local_ones(tmp_path, method):
    settings = ofcl.make_settings({**SHORT, "method": method})
    data = make_blobs(train=15)
    _, server = locally(settings, data)
    _, remote_server, _ = remotely(tmp_path, settings, data)
    assert server.round == remote_server.round > 0
    for name, value in server.model.items():
        assert torch.equal(value, remote_server.model[name]), name


@pytest.mark.parametrize("method", ["der", "mir", "gdumb", "lwf", "ewc"])
def test_private_updates(method):
    noisy = ofcl.run(make_blobs(train=15), **{**SHORT, "method": method, "dp_clip": 1.0})
    assert noisy.rounds > 0


@pytest.mark.parametrize("method", ["scr", "icarl"])
def test_features_without_noise_are_refused(method):
    with pytest.raises(OfclError, match="sends sums of features without noise"):
        ofcl.run(make_blobs(train=15), **{**SHORT, "method": method, "dp_clip": 1.0})


@pytest.mark.parametrize("method", FIELD)
def test_a_method_says_what_leaves_a_client(method):
    run = ofcl.Run(ofcl.make_settings({**SHORT, "method": method}), make_blobs(train=15))
    update = run.clients[0].update()
    added = any(name.startswith("companion.") for name in update.state)
    assert not update.extras
    assert added == (METHODS[method].companion is not None)
    assert bool(METHODS[method].sends) == (added or run.settings.classifier == "nearest-mean")
