"""Cross-site validation between real processes: a party and the run are killed in the middle."""

import json

import pytest

import ofcl
from ofcl.storage.run_directory import RunDirectory
from tests.support.deployment import LONG, PARTIES, Deployment, settings_file

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytestmark = pytest.mark.xdist_group("deployment")  # two cores are not many for two federations

SETTINGS = {**LONG, "tasks": 1, "limit": 4, "min_clients": 3, "closing_round": "end",
            "cross_site": True}  # fmt: skip


def models_tested(out):
    if not out.exists():
        return []
    return [event for event in RunDirectory(out).events() if event["event"] == "crosstested"]


@pytest.mark.long
def test_a_killed_party_and_a_killed_run_end_with_the_matrix_of_those_who_agree(tmp_path):
    deployment, out = Deployment(tmp_path), tmp_path / "run"
    agreeing = PARTIES[:2]
    try:
        deployment.server()
        for name in PARTIES:
            deployment.client(name, *["--cross-site"] * (name in agreeing))
        deployment.connected(3)
        made = settings_file(tmp_path / "run.toml", SETTINGS)
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)
        deployment.wait_for(lambda: models_tested(out), "the first model")
        with deployment.frozen("start"):
            assert len(models_tested(out)) < 3  # there is something left to be done
            deployment.kill(PARTIES[1])
            before = deployment.log(PARTIES[1]).count("connected to")
            deployment.client(PARTIES[1], "--cross-site")
            deployment.wait_for(
                lambda: deployment.log(PARTIES[1]).count("connected to") > before, "it is back"
            )
        deployment.kill("start")
        deployment.spawn("start", "start", deployment.folder, "--resume")
        assert deployment.finish("start") == 0, deployment.told()
    finally:
        deployment.stop()
    digits = ofcl.load_dataset("digits")
    rows = RunDirectory(out).result().cross_site
    assert [(row["model"], row["clients"]) for row in rows] == [
        (None, [0, 1]), (0, [0, 1]), (1, [0, 1])
    ]  # fmt: skip
    noted = [json.loads((deployment.folder / name / "helps.json").read_text()) for name in PARTIES]
    for number, of in enumerate(noted[:2]):
        here = {row["party"]: row["accuracy"] for row in of["cross_site"]["here"]}
        assert here == {name: round(row["accuracy"][number], 2)
                        for name, row in zip((None, *agreeing), rows, strict=True)}  # fmt: skip
        assert here[None] == of["tasks"][-1]["global"]
        assert here[PARTIES[number]] == of["tasks"][-1]["own"]
        assert "your model on the data of others" in deployment.log(PARTIES[number])
        assert ofcl.load(deployment.folder / PARTIES[number]).predict(digits.x_test[:3]) is not None
    assert "cross_site" not in noted[2]
    assert "you take no part in it" in deployment.log(PARTIES[2])
    assert "mean elsewhere" in deployment.log("start")
