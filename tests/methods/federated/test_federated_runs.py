"""Whole runs of Re-Fed, FedCBDR and GLFC: the view that clients share, what is refused, privacy."""

import pytest
import torch
from safetensors.torch import load_file

import ofcl
from ofcl import Run, make_settings
from ofcl.errors import OfclError
from ofcl.events import Round
from ofcl.federation.party_side.party_policy import Policy
from ofcl.testing import TINY, make_blobs

BLOBS = make_blobs(train=24)
ALL = pytest.mark.parametrize("method", ["refed", "fedcbdr", "glfc"])


def rounds_of(**values):
    """Yields a run of FedCBDR after each of its rounds."""
    run = Run(make_settings({**TINY, "burn_in": 1, "method": "fedcbdr", **values}), BLOBS)
    for event in run:
        if isinstance(event, Round):
            yield run


def test_after_a_round_all_clients_have_the_mean_of_their_parts():
    sent = []
    for number, run in enumerate(rounds_of(protocol="sound", previous=0.0)):
        views = [client.learner.memory.policy.scorer for client in run.clients]
        if number == 0:  # nobody had put a part there before the first round
            assert [len(view._gram) for view in views] == [0] * len(views)
        else:
            mean = torch.stack(sent).mean(0)
            for view in views:
                assert torch.allclose(view._gram, mean, atol=1e-6)
            assert len(set(views[0]._weights)) > 0
        sent = [client.model.companion.gram.clone() for client in run.clients]
        assert all(part.trace().item() == pytest.approx(1, abs=1e-5) for part in sent)
        shares = run.clients[0].model.companion.head_bias
        assert shares.sum().item() == pytest.approx(1)
        if number == 2:
            break
    assert number == 2


def test_a_client_that_keeps_its_class_counts_tells_zeros():
    run = next(rounds_of(class_counts=False))
    assert run.clients[0].model.companion.head_bias.tolist() == [0] * len(BLOBS.labels)


def test_the_saved_model_is_without_the_view(tmp_path):
    ofcl.run(BLOBS, **{**TINY, "burn_in": 1, "method": "fedcbdr"}, out=tmp_path / "run")
    tensors = load_file(tmp_path / "run" / "model.safetensors")
    assert not [name for name in tensors if "companion" in name]


def test_fedcbdr_refuses_another_choice():
    with pytest.raises(OfclError, match="fedcbdr chooses samples by its global view"):
        ofcl.run(BLOBS, **{**TINY, "method": "fedcbdr", "score": "bi"})


def test_a_party_that_keeps_features_refuses_fedcbdr():
    terms = {"method": "fedcbdr", "batch_size": 16, "q": 5}
    Policy().check(terms)
    with pytest.raises(OfclError, match="fedcbdr sends mean products of the memory's features"):
        Policy(features=False).check(terms)


@ALL
def test_updates_can_be_private(method):
    values = {**TINY, "burn_in": 1, "method": method, "dp_clip": 1.0, "dp_noise": 0.5}
    assert ofcl.run(BLOBS, **values).A is not None
