"""The process of a run is paused until the server gives the run up; woken, it goes on by itself."""

import time

import pytest

from ofcl import Run, make_settings
from ofcl.events import Learned
from ofcl.federation.server_side import flower_transport
from tests.support.deployment import (
    LONG,
    PARTIES,
    Deployment,
    learned_of,
    look_less_often,
    rounds_of,
    settings_file,
)

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytestmark = pytest.mark.xdist_group("deployment")  # two cores are not many for two federations

LEASE = 6.0  # seconds without a sign of life after which the server gives up a run; else 60
SAID = "the server has given up the run"


def short_lease():
    """Lets a pause of seconds do what one of more than a minute does."""
    from flwr.supercore import heartbeat
    from flwr.supercore.corestate import sql_corestate

    look_less_often()
    sql_corestate.HEARTBEAT_DEFAULT_INTERVAL = LEASE / sql_corestate.HEARTBEAT_PATIENCE
    # A sign of life every 0.7 to 0.9 s, so that one is due when the process is woken.
    heartbeat.HEARTBEAT_DEFAULT_INTERVAL = heartbeat.HEARTBEAT_CALL_TIMEOUT + 1
    again = flower_transport.FlowerTransport._open_again

    def told(transport):
        print(SAID, flush=True)
        again(transport)

    flower_transport.FlowerTransport._open_again = told


@pytest.mark.long
def test_a_paused_run_goes_on_by_itself(tmp_path):
    settings = {**LONG, "limit": 12, "tasks": 1, "min_clients": 3}
    batches = sum(e.batches for e in Run(make_settings(settings)) if isinstance(e, Learned))
    deployment, out = Deployment(tmp_path, prepare=short_lease), tmp_path / "run"
    try:
        deployment.server()
        for name in PARTIES:
            deployment.client(name)
        deployment.connected(3)
        made = settings_file(tmp_path / "run.toml", settings)
        deployment.spawn("start", "start", deployment.folder, made, "--out", out)
        deployment.wait_for(lambda: rounds_of(out) >= 2, "two rounds")
        with deployment.frozen("start"):
            before = rounds_of(out)
            time.sleep(2 * LEASE)
        assert deployment.finish("start") == 0, deployment.told()
    finally:
        deployment.stop()
    assert SAID in deployment.log("start")
    assert "Traceback" not in deployment.log("start")
    assert rounds_of(out) > before
    assert sum(learned_of(out).values()) == batches  # each mini-batch is learned once
