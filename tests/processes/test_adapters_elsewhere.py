"""Pretrained models whose clients are in processes of their own: parties over TLS, Flower's."""

import importlib.util

import pytest
from safetensors.torch import load_file

import ofcl
from ofcl import Run, make_settings
from ofcl.storage.run_directory import RunDirectory
from tests.pretrained.test_adapters import SIDE, images, write_weights
from tests.support.deployment import PARTIES, Deployment, rounds_of, settings_file
from tests.support.remote import assert_same

if any(importlib.util.find_spec(name) is None for name in ("timm", "peft", "flwr")):
    pytest.skip("needs timm, peft and Flower", allow_module_level=True)

NAME = "timm:test_resnet"
RUN = {"protocol": "sound", "method": "bi", "clients": 3, "tasks": 2, "memory": 12, "steps": 1,
       "burn_in": 0, "q": 2, "limit": 6, "backbone_side": SIDE}  # fmt: skip


@pytest.mark.long
@pytest.mark.xdist_group("deployment")
def test_parties_that_are_killed_learn_the_adapters_of_one_process(tmp_path):
    weights = write_weights(tmp_path)
    here, settings = weights.partition("@")[2], {**RUN, "model": weights, "min_clients": 3}
    local = Run(make_settings({**settings, "dataset": "digits"}))
    list(local)
    given = ("--set", f"allow={NAME}", "--set", f"weights={here}")
    deployment, out = Deployment(tmp_path, modules=("timm", "peft")), tmp_path / "run"
    try:
        deployment.server()
        for name in PARTIES:
            deployment.client(name, *given)
        deployment.connected(3)
        made = settings_file(tmp_path / "run.toml", settings)
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)
        for wanted, name in ((1, PARTIES[1]), (3, PARTIES[0])):
            deployment.wait_for(lambda: rounds_of(out) >= wanted, f"round {wanted}")  # noqa: B023
            deployment.kill(name)
            deployment.client(name, *given)
        assert deployment.finish("start") == 0, deployment.told()
    finally:
        deployment.stop()
    model = load_file(out / "model.safetensors")
    assert_same(model, local.server.model)
    assert any("lora_A" in name for name in model)
    result = RunDirectory(out).result()
    assert result.rounds == local.result().rounds > 3
    saved = [path.stat().st_size for path in deployment.folder.rglob("*.safetensors")]
    assert max(saved) < sum(v.numel() * 4 for v in load_file(here).values()) / 2
    used = ofcl.load(deployment.folder / PARTIES[1], embedder=weights)
    assert used.description.network.name == NAME


@pytest.mark.long
@pytest.mark.xdist_group("simulation")
def test_clients_of_a_simulation_learn_the_adapters_of_one_process(tmp_path):
    weights = write_weights(tmp_path)
    settings = {**RUN, "model": weights, "clients": 2, "q": 1, "compress": "int8"}
    local = Run(make_settings(settings), images())
    list(local)
    simulated = Run(make_settings({**settings, "engine": "flower-sim"}), images(), tmp_path / "run")
    list(simulated)
    assert_same(simulated.server.model, local.server.model)
    assert simulated.result().rounds == local.result().rounds > 1
    assert ofcl.load(tmp_path / "run", embedder=weights).labels == tuple("abcd")
