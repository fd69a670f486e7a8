"""A plug-in in a fresh virtual environment: checked, run on every engine, killed and resumed.

Minutes, and packages from the registry: `make test-fresh`. Every command is a program of that
environment, which knows nothing of this tree.
"""

import json
from collections import Counter

import pytest

from ofcl.bundle.open_bundle import find_bundle
from tests.support.deployment import PARTIES, Deployment, learned_of, rounds_of, settings_file
from tests.support.environments import ROOT, fresh_environment
from tests.support.plugin import CONTRACTS, PARTS, SMALL, assert_same_run, kill_and_resume
from tests.support.remote import assert_same

pytestmark = [pytest.mark.fresh, pytest.mark.xdist_group("deployment")]

RUN = {"model": "two-layers", "method": "surprised", "loss": "smooth", "protocol": "sound",
       "memory": 60, "burn_in": 0, "q": 2, "batch_size": 8, "lr": 0.003, "tasks": 2,
       "min_clients": 2, "closing_round": "end", "round_timeout": 30.0}  # fmt: skip
ALLOW = ("--set", "allow=two-layers,surprised,smooth")
WHERE = """
import json, sys
from importlib.metadata import distribution
import ofcl, ofcl_example
print(json.dumps({
    "files": [ofcl.__file__, ofcl_example.__file__], "path": sys.path,
    "editable": ["editable" in distribution(name).read_text("direct_url.json")
                 for name in ("ofcl", "ofcl-example-plugin")],
}))
"""
LOADED = """
import sys, ofcl
from pathlib import Path
model = ofcl.load(Path(sys.argv[1]), allow=["two-layers"])
print(model.predict(ofcl.load_dataset("digits").x_test[:50]).tolist())
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return fresh_environment(tmp_path_factory.mktemp("fresh") / "environment")


@pytest.fixture(scope="module")
def whole(environment, tmp_path_factory):
    """A run with the plug-in's parts that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    environment.ofcl("run", *SMALL, *PARTS, "--out", folder / "run", cwd=folder)
    return folder / "run"


def test_nothing_comes_from_this_tree(environment, tmp_path):
    found = json.loads(environment.run_python("-c", WHERE, cwd=tmp_path))
    place = str(environment.python[0].parents[1])
    assert all(file.startswith(place) for file in found["files"]), found
    assert not any(str(ROOT) in entry for entry in found["path"]), found
    assert found["editable"] == [False, False]


def test_the_plugin_keeps_the_contracts(environment, tmp_path):
    environment.run_python("-c", CONTRACTS, cwd=tmp_path)
    words = " ".join(environment.ofcl("list", "models", cwd=tmp_path).split())
    assert "two-layers from ofcl-example-plugin 0.1.0" in words


def test_a_killed_run_is_resumed_to_the_same_result(environment, whole, tmp_path):
    assert_same_run(kill_and_resume(environment, tmp_path), whole)


def test_a_killed_simulation_is_resumed_to_the_same_result(environment, whole, tmp_path):
    assert_same_run(kill_and_resume(environment, tmp_path, "--engine", "flower-sim"), whole)


def test_parties_allow_the_parts_and_go_on_after_kills(environment, tmp_path):
    deployment, out = Deployment(tmp_path, environment=environment), tmp_path / "run"
    try:
        deployment.server()
        deployment.client(PARTIES[0], *ALLOW)
        deployment.client(PARTIES[1])  # it allows nothing
        deployment.client(PARTIES[2], *ALLOW)
        deployment.connected(3)
        made = settings_file(tmp_path / "run.toml", RUN)
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)
        refused = "code that this party has not allowed"
        deployment.wait_for(lambda: refused in deployment.log(PARTIES[1]), "a refusal")
        deployment.kill(PARTIES[1])
        deployment.client(PARTIES[1], *ALLOW)
        before = rounds_of(out)
        deployment.wait_for(lambda: rounds_of(out) >= before + 2, "rounds")
        deployment.kill("start")
        deployment.kill(PARTIES[0])
        deployment.client(PARTIES[0], *ALLOW)
        deployment.spawn("start", "start", deployment.folder, "--resume", "-q")
        assert deployment.finish("start") == 0, deployment.told()
        for who in PARTIES:
            deployment.wait_for(lambda who=who: "the run is over" in deployment.log(who), who)
    finally:
        deployment.stop()
    learned = learned_of(out)
    assert len(learned) == 3
    assert len(set(learned.values())) == 1, learned  # nothing was lost or learned twice
    places = (out, *(deployment.folder / who for who in PARTIES))
    final = find_bundle(out, allow=None).tensors
    for place in places:
        assert_same(find_bundle(place, allow=None).tensors, final)
    answers = Counter(environment.run_python("-c", LOADED, p, cwd=tmp_path) for p in places)
    assert len(answers) == 1, answers  # the server's model, and that of each party
