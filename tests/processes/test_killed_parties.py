"""A federation of real processes goes on, whoever is killed, absent or late."""

import random
import re
import signal
import time
from collections import Counter

import pytest
from PIL import Image

from ofcl import Run, load, load_dataset, make_settings
from ofcl.bundle.open_bundle import find_bundle
from ofcl.events import Learned
from ofcl.state import nbytes
from ofcl.storage.checkpoint import load_checkpoint
from ofcl.storage.run_directory import RunDirectory
from tests.support.deployment import (
    LONG,
    PARTIES,
    Deployment,
    learned_of,
    rounds_of,
    settings_file,
)
from tests.support.remote import assert_same

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytestmark = pytest.mark.xdist_group("deployment")  # two cores are not many for two federations


def check_that_parties_can_predict(deployment, out, folder):
    """Every party has the run's final model, also those that were killed, and can use it."""
    final, digits = find_bundle(out).tensors, load_dataset("digits")
    scan = folder / "scan.png"
    Image.fromarray(digits.x_test[3, 0].numpy()).save(scan)
    for name in PARTIES:
        assert_same(find_bundle(deployment.folder / name).tensors, final)
        model = load(deployment.folder / name)
        assert model.predict(scan) == load(out).predict(scan)
        assert model.description.learned.finished
        assert "the run is over" in deployment.log(name)
        assert re.search(
            r"on your test data \(\d+ samples\): global model \d", deployment.log(name)
        )


def test_killed_absent_and_late_parties_and_a_killed_server(tmp_path):
    draw = random.Random(5)
    settings = {**LONG, "compress": "int8"}
    undisturbed = Run(make_settings(settings))
    batches = Counter()
    for event in undisturbed:
        if isinstance(event, Learned):
            batches[event.client] += event.batches
    deployment = Deployment(tmp_path)
    out = tmp_path / "run"
    try:
        deployment.server()
        for name in PARTIES[:2]:  # the third joins late
            deployment.client(name)
        deployment.connected(2)
        made = settings_file(tmp_path / "run.toml", settings)
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)

        def after_round(wanted):
            deployment.wait_for(lambda: rounds_of(out) >= wanted, f"round {wanted}")

        after_round(1)
        with deployment.frozen("start"):
            deployment.client(PARTIES[2])
            deployment.connected(3)
        for kill in range(5):
            after_round(2 + kill)
            name = draw.choice(PARTIES[:2])
            time.sleep(draw.random())
            deployment.kill(name)
            deployment.client(name)
        after_round(8)  # the server: Flower's process; the one of the run sees that, and waits
        deployment.kill("server")
        deployment.wait_for(lambda: "goes on by itself" in deployment.log("start"), "has gone")
        deployment.server()
        after_round(11)  # somebody leaves for three rounds
        deployment.kill(PARTIES[1], signal.SIGTERM)
        after_round(rounds_of(out) + 3)
        with deployment.frozen("start"):
            deployment.connected_again(PARTIES[1])
        assert deployment.finish("start") == 0, deployment.told()
    finally:
        deployment.stop()
    result = RunDirectory(out).result()
    check_that_parties_can_predict(deployment, out, tmp_path)
    assert learned_of(out) == batches, deployment.told()
    for number, name in enumerate(PARTIES):
        (folder,) = (deployment.folder / name / "runs").iterdir()
        state = load_checkpoint(folder, pytest.fail).state["client"]
        assert state["learned"] == batches[number]
        assert state["finished"]
    told = [event["clients"] for event in RunDirectory(out).events() if event["event"] == "round"]
    # Coded throughout, but for what was lost: a quarter of the bytes, and some whole models.
    whole = sum(map(len, told)) * nbytes(find_bundle(out).tensors)
    assert result.bytes_sent < 0.35 * whole
    assert [0, 1] in told  # before the third had joined
    assert [0, 2] in told  # while the second was away
    assert [0, 1, 2] in told
    # Who is there in which round depends on how busy the machine is; chance would be 33.
    assert abs(result.A - undisturbed.result().A) <= 6.0
