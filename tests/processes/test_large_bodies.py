"""Bodies of hundreds of megabytes cost a real server no more than the bound of one body."""

import contextlib
import re
import ssl
import threading
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")

from tests.support.deployment import Deployment

pytestmark = pytest.mark.xdist_group("deployment")
MEGABYTE = b"\0" * 2**20


def peak(process):
    """The most memory that a process has held, in megabytes."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def streamed(client, path, megabytes, told):
    """Sends zeros; gives the status, or None if the server has cut the body off."""
    headers = {"content-type": "application/protobuf"}
    if told:
        headers["content-length"] = str(megabytes * 2**20)
    body = (MEGABYTE for _ in range(megabytes))
    with contextlib.suppress(client.errors):
        return client.post(path, headers=headers, content=body).status_code
    return None


@pytest.mark.long
def test_bodies_of_hundreds_of_megabytes_cost_the_server_no_more_than_the_bound(tmp_path):
    import httpx
    from flwr.proto.message_pb2 import PushObjectRequest
    from flwr.proto.node_pb2 import Node

    from ofcl.federation.party_side.flower_connection import FlowerConnection

    deployment = Deployment(tmp_path)
    try:
        deployment.server()
        deployment.client("hospital-a")
        deployment.connected(1)
        server = deployment.server_folder
        process = deployment.processes["server"].pid
        before = peak(process)
        trusted = ssl.create_default_context(cafile=str(server.authority))
        with httpx.Client(verify=trusted, base_url=f"https://{server.here}", timeout=60) as client:
            client.errors = (httpx.TransportError,)
            for path in ("pull-messages", "push-object"):
                for told in (True, False):
                    status = streamed(client, f"/v1/fleet/{path}", 400, told)
                    assert status is None or status >= 400, (path, told)
        without_key = peak(process) - before
        folder = deployment.folder / "hospital-a"
        authority, key = (folder / "ca.crt").read_bytes(), (folder / "key").read_bytes()
        leaving = threading.Event()
        party = FlowerConnection(server.here, authority, key, folder, print, leaving)
        number = int((folder / "node-id").read_text()) if (folder / "node-id").exists() else 1
        large = PushObjectRequest(node=Node(node_id=number), object_id="0" * 64,
                                  object_content=bytes(600 * 2**20))  # fmt: skip
        with party._client, pytest.raises(httpx.HTTPError):
            party._client.PushObject(large)
        with_key = peak(process) - before
        assert (without_key < 300, with_key < 300) == (True, True), (without_key, with_key)
        print(f"{before:.0f} MB before, {without_key:.0f} and {with_key:.0f} MB more")
        assert httpx.Client(verify=trusted).post(f"https://{server.here}/v1/fleet/x").status_code
    finally:
        deployment.stop()
