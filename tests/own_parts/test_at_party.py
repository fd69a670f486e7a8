"""A server may ask for code of one's own; a party imports only what its settings allow."""

import pytest
from torch import nn

from ofcl import OfclError
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.party_side.own_source import settings_here
from ofcl.federation.party_side.party_policy import Policy
from ofcl.federation.terms import Samples, Terms
from tests.support.federation import SMALL, InProcess, hosted, member

HERE = "tests.own_parts.test_at_party:net"


def net(size):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, size.classes))


def test_a_party_refuses_code_that_it_has_not_allowed():
    samples = Samples("dataset", "image", (1, 8, 8), (0.5,), (0.5,), None)
    terms = Terms({"model": HERE, "method": "er"}, 3, ("a", "b"), 2, samples)
    with pytest.raises(OfclError, match=f"--set allow={HERE}"):
        settings_here(terms, {})
    assert settings_here(terms, {"allow": HERE}).model == HERE
    for name in ("os:system", "python:net"):
        hostile = Terms({"loss": name}, 3, ("a", "b"), 2, samples)
        with pytest.raises(OfclError, match="which is code that this party has not allowed"):
            settings_here(hostile, {"allow": HERE})


def test_the_policy_allows_parts_besides_the_partys_own_settings():
    samples = Samples("dataset", "image", (1, 8, 8), (0.5,), (0.5,), None)
    terms = Terms({"model": HERE, "method": "er"}, 3, ("a", "b"), 2, samples)
    with pytest.raises(OfclError, match="or write it into `allow` of policy.toml"):
        settings_here(terms, Policy().with_parts({}))
    assert settings_here(terms, Policy(allow=(HERE,)).with_parts({"allow": "a:b"})).model == HERE


def test_parties_learn_with_code_that_they_have_allowed(tmp_path):
    def source():
        return open_source({"dataset": "digits", "allow": HERE}, True, lambda _: None)

    transport = InProcess({k: member(tmp_path, k, source()) for k in range(3)})
    settings = {**SMALL, "model": HERE, "method": "er", "tasks": 2, "limit": 5, "burn_in": 0}
    run, _ = hosted(tmp_path, transport, settings)
    for _ in run:
        pass
    assert run.result().rounds > 0
    assert sorted(run.server.model)[0].startswith("body.")
