"""The server's certificate is renewed between real processes, while a run goes on."""

import json
import socket
import ssl

import pytest

from ofcl.federation.server_side import renewed_certificate
from ofcl.federation.setup.organiser import renew
from tests.support.deployment import (
    PARTIES,
    Deployment,
    look_less_often,
    rounds_of,
    settings_file,
)
from tests.support.federation import SMALL

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("deployment")]


def look_soon():
    look_less_often()
    renewed_certificate.LOOK_AGAIN = 0.5


def serial(deployment):
    """Connects anew, and gives the number of the certificate that the server shows."""
    here = deployment.server_folder
    context = ssl.create_default_context(cafile=str(here.authority))
    plain = socket.create_connection(("127.0.0.1", here.federation.port))
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        return connection.getpeercert()["serialNumber"]


def test_a_run_goes_on_while_the_certificate_is_renewed(tmp_path):
    deployment, out = Deployment(tmp_path, look_soon), tmp_path / "run"
    try:
        deployment.server()
        for name in PARTIES:
            deployment.client(name)
        deployment.connected(3)
        settings = settings_file(tmp_path / "run.toml", {**SMALL, "tasks": 1, "limit": 90})
        deployment.spawn("start", "start", deployment.folder, settings, "--out", out)
        deployment.wait_for(lambda: rounds_of(out) >= 2, "two rounds")
        before = serial(deployment)
        renew(deployment.folder)
        deployment.wait_for(lambda: serial(deployment) != before, "the new certificate")
        at = rounds_of(out)
        deployment.kill(PARTIES[1])  # it connects anew, to the new certificate
        deployment.connected_again(PARTIES[1])
        assert deployment.finish("start") == 0, deployment.told()
        assert at < rounds_of(out) == 15  # of 47 mini-batches, every third
        assert json.loads((out / "result.json").read_text())["A"] is not None
        assert "takes the renewed certificate" in deployment.log("server")
    finally:
        deployment.stop()
