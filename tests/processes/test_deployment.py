"""A federation of real processes over TLS on this machine: the same learner; who is let in."""

import re
import shutil
import ssl
import threading
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from ofcl import Run, make_settings
from ofcl.cli import federation_commands as federation
from ofcl.evaluation.results import summarise
from ofcl.events import Learned, Round
from ofcl.federation.server_side.settings_of_run import run_settings
from ofcl.federation.server_side.signed_transport import SignedTransport
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup.folders import Federation
from ofcl.federation.setup.keys import make_party_key
from ofcl.federation.setup.organiser import create
from ofcl.federation.signing import Signer
from ofcl.federation.transport_choice import open_transport
from ofcl.storage.run_directory import RunDirectory
from tests.processes.test_flower_simulation import DIGITS
from tests.support.commands import ofcl
from tests.support.deployment import (
    LONG,
    PARTIES,
    Deployment,
    learned_of,
    rounds_of,
    settings_file,
)

pytest.importorskip("flwr", reason="needs Flower (pip install 'ofcl[flower]')")
pytestmark = pytest.mark.xdist_group("deployment")  # two cores are not many for two federations


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    deployment = Deployment(tmp_path_factory.mktemp("deployment"))
    try:
        deployment.server()
        for name in PARTIES:
            deployment.client(name)
        deployment.connected(3)
        yield deployment
    finally:
        deployment.stop()


def test_a_deployment_gives_the_model_of_one_process(deployed, tmp_path):
    local = Run(make_settings(DIGITS))
    events = list(local)
    expected = local.result()
    assert expected.rounds > 3
    made = settings_file(tmp_path / "run.toml", {**DIGITS, "min_clients": 3})
    deployed.spawn("start", "start", deployed.folder, made, "--out", tmp_path / "deployed")
    assert deployed.finish("start") == 0, deployed.told()
    result = RunDirectory(tmp_path / "deployed").result()
    model = load_file(tmp_path / "deployed" / "model.safetensors")
    assert model.keys() == local.server.model.keys()
    for name, value in local.server.model.items():
        assert torch.equal(model[name], value), name
    assert (result.A, result.F, result.rounds) == (expected.A, expected.F, expected.rounds)
    assert result.accuracy == expected.accuracy
    assert sum(learned_of(tmp_path / "deployed").values()) == sum(
        event.batches for event in events if isinstance(event, Learned)
    )


class Mischief:
    """A post that sends everything twice, and now and then what was sent long ago."""

    def __init__(self, post):
        self._post = post
        self.sent, self.twice, self.copies = [], {}, {}
        self.answers, self.refused = Counter(), 0

    def __getattr__(self, name):
        return getattr(self._post, name)

    def send(self, party, content):
        first, second = (self._post.send(party, content) for _ in range(2))
        self.copies[second] = "again"
        if len(self.sent) > 6:
            old = self.sent[-6]
            self.copies[self._post.send(*old)] = "old"
        if "request" in content.tree:
            self.sent.append((party, content))
        return first

    def fetch(self, messages):
        found = dict(self._post.fetch([*messages, *self.copies]))
        for message in [m for m in found if m in self.copies]:
            kind, arrived = self.copies.pop(message), found.pop(message)
            self.answers[kind, arrived.content is not None] += 1
        return found


@pytest.mark.long
def test_messages_that_come_twice_or_out_of_order_are_learned_once(deployed, tmp_path):
    from ofcl.federation.server_side.flower_transport import FlowerTransport

    settings = {**LONG, "limit": 6, "min_clients": 3}
    local = Run(make_settings(settings))
    events = list(local)
    post = Mischief(FlowerTransport(deployed.server_folder, insecure=False))
    values = {k: v for k, v in settings.items() if k not in ("dataset", "clients")}
    who = deployed.server_folder.federation
    signer = Signer(deployed.server_folder.signing_key.read_bytes())
    signed = SignedTransport(post, signer, who.parties)
    stage = FederationStage(who, deployed.folder, signed)
    run = Run(run_settings(who, values), stage=stage, tell=lambda _: None)
    told = list(run)
    for name, value in local.server.model.items():
        assert torch.equal(run.server.model[name], value), name
    made = [summarise(e, clients=3, tasks=3, seconds=0.0) for e in (events, told)]
    assert made[0].A == made[1].A
    assert post.answers["again", True] > 10  # the same answer once more
    assert post.answers["old", False] > 5  # refused
    assert post.answers["old", True] == 0


def test_a_run_that_the_server_has_given_up_goes_on_by_itself(deployed, tmp_path):
    """As after a pause of more than a minute, when the server refuses the run's token (401)."""
    from flwr.common.constant import SubStatus
    from flwr.proto.runtime_pb2 import PushTaskOutputRequest

    settings = {**LONG, "limit": 6, "tasks": 1, "min_clients": 3}
    transport = open_transport(deployed.server_folder, insecure=False, round_timeout=None)
    values = {k: v for k, v in settings.items() if k not in ("dataset", "clients")}
    who, said = deployed.server_folder.federation, []
    stage = FederationStage(who, deployed.folder, transport)
    run = Run(run_settings(who, values), stage=stage, tell=said.append)
    given_up = 0
    for event in run:
        if isinstance(event, Round) and not given_up:
            given_up += 1
            done = PushTaskOutputRequest(sub_status=SubStatus.COMPLETED, details="")
            transport._transport._grid._runtime_client.PushTaskOutput(done)
    local = Run(make_settings(settings))
    list(local)
    assert given_up
    assert transport._transport._opened == 2
    for name, value in local.server.model.items():
        assert torch.equal(run.server.model[name], value), name
    transport.close()


def test_status_and_stop_and_resume(deployed, tmp_path):
    made = settings_file(tmp_path / "run.toml", {**LONG, "min_clients": 3})
    out = tmp_path / "run"
    deployed.spawn("start", "start", deployed.folder, made, "--out", out)
    deployed.wait_for(lambda: rounds_of(out) >= 2, "rounds")
    code, told = here("status", deployed.folder)
    assert code == 0, told
    for name in PARTIES:
        assert re.search(rf"{name} +online +20\d\d-", told)
    assert re.search(r"run: \d+ rounds, going on", told)
    code, told = here("start", deployed.folder, made)
    assert "a run is going on" in told
    code, told = here("stop", deployed.folder)
    assert code == 0, told
    assert deployed.finish("start") == 130
    before = rounds_of(out)
    assert "--resume" in deployed.log("start").splitlines()[-1]
    tiny = settings_file(tmp_path / "tiny.toml", {**LONG, "min_clients": 3, "memory": 1})
    code, told = command("start", deployed.folder, tiny)  # it fails before it has begun
    assert (code, "smaller than the number of classes" in told) == (2, True), told
    deployed.spawn("start", "start", deployed.folder, "--resume", "-q")
    deployed.wait_for(lambda: rounds_of(out) > before, "more rounds")
    code, told = here("stop", deployed.folder)
    assert code == 0, told
    deployed.finish("start")
    assert "no run is going on" in here("stop", deployed.folder)[1]


def here(*arguments):
    """A command in this process."""
    done = CliRunner().invoke(federation.app, [*map(str, arguments)], env={"COLUMNS": "300"})
    return done.exit_code, f"{done.output}{done.exception}"


def command(*arguments):
    code, out, err = ofcl("federation", *arguments)
    return code, out + err


# Who is not let in


def intruder(deployed, tmp_path):
    folder = tmp_path / "hospital-a"
    shutil.copytree(deployed.folder / "hospital-a", folder,
                    ignore=shutil.ignore_patterns("runs", "lock", "node-id"))  # fmt: skip
    return folder


def test_a_key_that_is_not_registered_is_refused(deployed, tmp_path):
    folder = intruder(deployed, tmp_path)
    (folder / "key").write_bytes(make_party_key().private)
    code, told = command("client", folder, "--dataset", "digits", "--share")
    assert code == 2
    assert "does not know this party's key" in told


def test_a_foreign_authority_is_refused(deployed, tmp_path):
    folder = intruder(deployed, tmp_path)
    create(tmp_path / "other", Federation("other", ("x",), ("127.0.0.1",), 1))
    shutil.copy(tmp_path / "other" / "x" / "ca.crt", folder / "ca.crt")
    code, told = command("client", folder, "--dataset", "digits", "--share")
    assert code == 2
    assert "is not the one of this federation" in told


def test_a_party_cannot_send_requests_as_if_it_were_the_server(deployed, tmp_path):
    """The server refuses them and says whose they are; a party drops what is not signed."""
    import httpx
    from flwr.app import Message
    from flwr.app.message import remove_content_from_message
    from flwr.common.serde import message_to_proto
    from flwr.proto.fleet_pb2 import PushMessagesRequest
    from flwr.proto.node_pb2 import Node
    from flwr.supercore.inflatable.inflatable_object import get_object_tree

    from ofcl.engines.flower.records import as_records
    from ofcl.federation.party_side.flower_connection import FlowerConnection
    from ofcl.federation.server_side.flower_transport import FlowerTransport

    post = FlowerTransport(deployed.server_folder, insecure=False)
    nodes = {name: node.number for name, node in post._control.nodes().items()}
    folder = deployed.folder / "hospital-a"
    authority, key = (folder / "ca.crt").read_bytes(), (folder / "key").read_bytes()
    leaving = threading.Event()
    party = FlowerConnection(deployed.server_folder.here, authority, key, folder, print, leaving)
    forged = Message(as_records({}), dst_node_id=nodes["hospital-b"], message_type="query.ofcl",
                     ttl=60.0)  # fmt: skip
    assert forged.metadata.src_node_id == 1  # the server's
    forged.metadata.__dict__["_message_id"] = forged.object_id
    request = PushMessagesRequest(
        node=Node(node_id=nodes["hospital-a"]),
        messages_list=[message_to_proto(remove_content_from_message(forged))],
        message_object_trees=[get_object_tree(forged)],
        clientapp_runtime_list=[0.0],
    )
    with party._client, pytest.raises(httpx.HTTPStatusError) as refused:
        party._client.PushMessages(request)
    assert refused.value.response.status_code == 403
    said = "refused a request that hospital-a has sent"
    deployed.wait_for(lambda: said in deployed.log("server"), "a line at the server")
    # Over the server's own interface, but without its key: what comes by another way is dropped.
    assert post.connected()
    sent = post.send(1, {})
    deployed.wait_for(lambda: "dropped a message without" in deployed.log("hospital-b"), "named")
    found = {}
    deployed.wait_for(lambda: found.update(post.fetch([sent])) or found, "a failure")
    assert found[sent].content is None
    post.close()


def test_plaintext_is_refused(deployed, tmp_path):
    import httpx

    folder = intruder(deployed, tmp_path)
    code, told = command("client", folder, "--dataset", "digits", "--share", "--insecure")
    assert code == 2
    assert "does not speak plaintext" in told
    with pytest.raises(httpx.HTTPError):
        httpx.post(f"http://{deployed.server_folder.here}/v1/fleet/pull-messages")
    code, told = command("client", folder, "--dataset", "digits", "--insecure",
                         "--server", "192.0.2.1:8000")  # fmt: skip
    assert code == 2
    assert "--insecure is for this machine alone" in told


def test_without_a_key_or_a_token_every_door_is_shut(deployed):
    import httpx

    server = deployed.server_folder
    trusted = ssl.create_default_context(cafile=str(server.authority))
    client = httpx.Client(verify=trusted, base_url=f"https://{server.here}")
    body = {"headers": {"content-type": "application/protobuf"}, "content": b""}
    for path in ("register-node", "activate-node", "pull-messages", "push-messages", "pull-object"):
        assert client.post(f"/v1/fleet/{path}", **body).status_code in (401, 404), path
    assert client.post("/v1/fleet/pull-messages", **body).status_code == 401
    for path in ("list-nodes", "start-run", "register-node", "stop-run"):
        assert client.post(f"/v1/control/{path}", **body).status_code == 403, path
        wrong = {**body, "headers": {**body["headers"], "x-ofcl-administrator": "guess"}}
        assert client.post(f"/v1/control/{path}", **wrong).status_code == 403, path
    for path in ("/docs", "/openapi.json", "/V1/control/list-nodes", "//v1/control/list-nodes",
                 "/v1/fleet/../control/list-nodes"):  # fmt: skip
        assert client.post(path, **body).status_code == 403, path
    assert client.post("/v1/runtime/acquire-task", **body).status_code in (400, 401)


def test_parties_join_and_leave_a_server_that_runs(deployed):
    """The last test here: the federation is another one afterwards."""
    code, told = command("add", deployed.folder, "hospital-d")
    assert code == 0, told
    assert "the server lets hospital-d in" in told
    deployed.client("hospital-d")
    deployed.wait_for(lambda: "connected to" in deployed.log("hospital-d"), "hospital-d")

    file = deployed.folder / "federation.toml"
    content = file.read_text()
    file.write_text(content[:20])  # somebody copies it there, not at once
    deployed.wait_for(lambda: "warning: TOMLDecodeError" in deployed.log("server"), "a warning")
    file.write_text(content)

    code, told = command("remove", deployed.folder, "hospital-d")
    assert code == 0, told
    assert "the server refuses hospital-d now" in told
    assert deployed.finish("hospital-d") == 2
    assert "does not know this party's key" in deployed.log("hospital-d")

    assert command("add", deployed.folder, "hospital-e")[0] == 0
    deployed.kill("server")
    code, told = command("remove", deployed.folder, "hospital-e")
    assert code == 0, told
    assert "no server at" in told
    deployed.server()
    code, told = command("client", deployed.folder / "hospital-e", "--dataset", "digits", "--share")
    assert code == 2
    assert "does not know this party's key" in told
    code, told = command("status", deployed.folder)
    assert code == 0
    assert re.search(r"hospital-e +has left", told)
