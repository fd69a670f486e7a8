"""Parties as real processes that embed images and learn with the parts of an installed package."""

from importlib.util import find_spec

import pytest

from ofcl.bundle.open_bundle import find_bundle
from ofcl.storage.run_directory import RunDirectory
from tests.support.commands import ofcl
from tests.support.deployment import PARTIES, Deployment, rounds_of, settings_file
from tests.support.embedded_images import pictures, weights_file, write_arrays, write_files
from tests.support.environments import install_plugin
from tests.support.plugin import FOLDER, have_plugin
from tests.support.remote import assert_same

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytestmark = [
    pytest.mark.skipif(find_spec("timm") is None, reason="needs timm"),
    pytest.mark.long,
    pytest.mark.xdist_group("deployment"),
]

PARTS = {"model": "two-layers", "method": "surprised", "loss": "smooth"}
RUN = {**PARTS, "protocol": "sound", "memory": 12, "burn_in": 0, "q": 2, "batch_size": 8,
       "lr": 0.003, "tasks": 2, "min_clients": 2, "closing_round": "end",
       "round_timeout": 30.0}  # fmt: skip
ALLOW = ("--set", "allow=two-layers,surprised,smooth")


def test_parts_and_embedded_images_between_real_parties_that_are_killed(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(install_plugin(tmp_path / "installed")))
    names = {who: weights_file(tmp_path / who / "net.safetensors", k // 2)
             for k, who in enumerate(PARTIES)}  # fmt: skip
    deployment = Deployment(tmp_path, have_plugin, ["tests.support.loaded_timm"])
    out = tmp_path / "run"

    def client(who, *more):
        data = tmp_path / who / "data.npz"
        if not data.exists():
            write_arrays(data, 96, 4, seed=PARTIES.index(who))
        deployment.spawn(who, "client", deployment.folder / who, "--dataset", data, "--embedder",
                         names[who], "--set", f"data_root={tmp_path / who}", *more)  # fmt: skip

    try:
        deployment.server()
        client(PARTIES[0], *ALLOW)
        client(PARTIES[1])  # it allows nothing
        client(PARTIES[2], *ALLOW)  # it has other weights
        deployment.connected(3)
        made = settings_file(tmp_path / "run.toml", RUN)
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)
        refused = "code that this party has not allowed"
        deployment.wait_for(lambda: refused in deployment.log(PARTIES[1]), "a refusal")
        assert "hospital-c has other samples than hospital-a, hospital-b: embedder " in (
            deployment.log("start")
        )
        deployment.kill(PARTIES[1])
        client(PARTIES[1], *ALLOW)
        deployment.wait_for(lambda: rounds_of(out) >= 2, "rounds")
        deployment.kill("start")
        deployment.kill(PARTIES[0])
        client(PARTIES[0], *ALLOW)
        deployment.spawn("start", "start", deployment.folder, "--resume", "-q")
        assert deployment.finish("start") == 0, deployment.told()
        assert RunDirectory(out).result().rounds > 2
        final = find_bundle(out, allow=None)
        for who in PARTIES[:2]:
            deployment.wait_for(lambda who=who: "the run is over" in deployment.log(who), who)
            kept = find_bundle(deployment.folder / who, allow=None)
            assert_same(kept.tensors, final.tensors)
        assert not (deployment.folder / PARTIES[2] / "model").exists()
    finally:
        deployment.stop()
    scans = write_files(tmp_path / "scans", 8, 7)
    for model in (out, deployment.folder / PARTIES[0]):  # the server's own, and a party's
        code, told, problem = ofcl(
            "predict", model, scans, "--embedder", names[PARTIES[0]], "--allow", "two-layers",
            "-o", tmp_path / "answers.csv", prepare=have_plugin,
        )  # fmt: skip
        assert code == 0, problem
        assert len((tmp_path / "answers.csv").read_text().splitlines()) == 1 + len(
            pictures(8, 7)[1]
        )
        (tmp_path / "answers.csv").unlink()
    code, _, problem = ofcl("predict", out, scans, "--embedder", names[PARTIES[2]], "--allow",
                            "two-layers", prepare=have_plugin)  # fmt: skip
    assert code == 2
    assert "is not the one that this model was learned with" in problem
