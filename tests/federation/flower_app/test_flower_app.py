"""A run as a Flower app, in one process: the grid and the nodes are stand-ins, all else is real."""

import re
from types import SimpleNamespace

import pytest
import torch

from ofcl import OfclError, Run
from ofcl.federation.flower_app import grid_transport
from ofcl.federation.flower_app.app_run import make_stage, read_run
from ofcl.federation.flower_app.grid_transport import GridTransport
from ofcl.federation.flower_app.node_app import make_client_app, read_party
from ofcl.federation.server_side import courier
from tests.support.federation import SMALL, locally, send_exactly

flwr_app = pytest.importorskip("flwr.app", reason="needs Flower (pip install 'ofcl[flower]')")

NAMES = ("hospital-a", "hospital-b", "hospital-c")


class OneProcess:
    """Flower's grid with nodes in this process; like Flower, it keeps nothing between messages."""

    def __init__(self, configs):
        self.nodes = {}  # node → its configuration
        self.sent, self.lost, self.kinds, self.count = {}, set(), [], 0
        self.on_pull = lambda message: None
        for config in configs:
            self.start(config)

    def start(self, config):
        node = 100 + len(self.nodes) + self.count
        self.nodes[node] = config
        return node

    def get_nodes(self):
        return [SimpleNamespace(node_id=node) for node in self.nodes]

    def push_messages(self, messages):
        identifiers = []
        for message in messages:
            self.count += 1
            identifiers.append(f"message {self.count}")
            message.metadata.__dict__["_message_id"] = identifiers[-1]
            self.sent[identifiers[-1]] = message
            self.kinds.append(message.metadata.message_type)
        return identifiers

    def pull_messages(self, identifiers):
        replies = []
        for identifier in identifiers:
            message = self.sent[identifier]
            self.on_pull(message)
            config = self.nodes.get(message.metadata.dst_node_id)
            if config is None:  # its process has died; Flower notices it late, or never
                continue
            context = flwr_app.Context(1, 1, config, flwr_app.RecordDict(), {})
            replies.append(make_client_app()(message, context))
        return replies


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    from flwr.supercore.task_identity import TaskIdentity

    for name, value in {"_run_id": 1, "_node_id": 1, "_task_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, name, value)  # Flower sets it in an app's process
    monkeypatch.setattr(grid_transport, "LOOK_AGAIN", 0.0)
    monkeypatch.setattr(courier, "LOOK_AGAIN", 0.0)
    monkeypatch.setattr(courier, "LOOK_WHO", 0.0)


def configs(folder, names=NAMES):
    for name in names:
        send_exactly(folder / name)
    return [
        {"party": name, "folder": str(folder / name), "dataset": "digits", "share": True}
        for name in names
    ]


def asked(out, **change):
    settings = {f"settings.{name}": value for name, value in {**SMALL, **change}.items()}
    return read_run({"parties": ",".join(NAMES), "out": str(out), "settings.lr": "", **settings})


def test_the_model_is_that_of_the_local_engine(tmp_path):
    grid = OneProcess(configs(tmp_path))
    run_ = asked(tmp_path / "run")
    run = Run(run_.settings, out=run_.out, stage=make_stage(run_, grid), tell=lambda _: None)
    list(run)
    _, server = locally()
    for name, value in server.model.items():
        assert torch.equal(run.server.model[name], value), name
    assert grid.kinds.count("query.who") == 3
    assert (tmp_path / "hospital-a" / "model" / "model.json").exists()
    assert (tmp_path / "run" / "model" / "model.json").exists()
    with pytest.raises(OfclError, match="finished"):
        _ = run_.begun


@pytest.mark.long
def test_a_node_that_dies_is_asked_again_under_its_new_number(tmp_path):
    grid = OneProcess(configs(tmp_path))
    answered = []

    def die(message):
        if message.metadata.message_type == "query.answer":
            answered.append(message)
        if len(answered) == 10:  # before it has answered; a new process has another number
            answered.append(message)
            dead = message.metadata.dst_node_id
            grid.start(grid.nodes.pop(dead))

    grid.on_pull = die
    run_ = asked(tmp_path / "run")
    run = Run(run_.settings, out=run_.out, stage=make_stage(run_, grid), tell=lambda _: None)
    list(run)
    _, server = locally()
    assert len(answered) > 10
    assert grid.kinds.count("query.who") == 4
    for name, value in server.model.items():  # all are waited for: min_clients is 3
        assert torch.equal(run.server.model[name], value), name


@pytest.mark.long
def test_a_server_that_is_stopped_goes_on(tmp_path):
    grid = OneProcess(configs(tmp_path))
    run_ = asked(tmp_path / "run")
    assert not run_.begun
    run = Run(run_.settings, out=run_.out, stage=make_stage(run_, grid), tell=lambda _: None)
    for n, _ in enumerate(run):
        if n == 12:
            break
    run.close()
    assert run_.begun
    again = Run.resume(run_.out, stage=make_stage(run_, grid), tell=lambda _: None)
    list(again)
    _, server = locally()
    for name, value in server.model.items():
        assert torch.equal(again.server.model[name], value), name


def test_of_two_nodes_with_one_name_the_newer_is_the_party(tmp_path):
    grid = OneProcess(configs(tmp_path, NAMES[:1]))
    transport = GridTransport(grid, NAMES)
    assert transport.connected() == {}
    assert transport.connected() == {0: "100"}
    newer = grid.start(grid.nodes[100])
    transport.connected()
    assert transport.connected() == {0: str(newer)}
    del grid.nodes[newer]
    assert transport.connected() == {0: "100"}


def test_a_stranger_is_no_party_and_told_of(tmp_path):
    said = []
    transport = GridTransport(OneProcess(configs(tmp_path, ["mallory"])), NAMES, said.append)
    transport.connected()
    assert transport.connected() == {}
    assert "'mallory', which is not in 'parties'" in said[0]


def test_why_a_node_could_not_answer_stays_there(tmp_path, capsys):
    config = {**configs(tmp_path)[0], "dataset": str(tmp_path / "missing.csv")}
    transport = GridTransport(OneProcess([config]), NAMES)
    transport.connected(), transport.connected()
    sent = transport.send(0, {})
    assert transport.fetch([sent])[sent].content is None
    assert "missing.csv" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"party": ""}, "has no 'party'"),
        ({"folder": " "}, "has no 'folder'"),
        ({"dataset": "-"}, "standard input"),
        ({"keep": "all"}, "expected one of global, own"),
    ],
)
def test_a_nodes_configuration_that_cannot_be_used_is_refused(tmp_path, change, message):
    with pytest.raises(OfclError, match=message):
        read_party({**configs(tmp_path)[0], **change})


def test_a_truth_value_in_quotation_marks_is_refused(tmp_path):
    with pytest.raises(OfclError, match=r"cross-site = 'false'; expected true or false, without"):
        read_party({**configs(tmp_path)[0], "cross-site": "false"})
    assert not read_party({**configs(tmp_path)[0], "cross-site": False}).cross_site


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parties": ""}, "expected the names"),
        ({"parties": "a,a"}, "each once"),
        ({"out": ""}, "no 'out'"),
        ({"settings.secure_aggregation": True}, "needs the parties' keys"),
        ({"settings.dataset": "digits"}, "decided by each party"),
    ],
)
def test_a_runs_configuration_that_cannot_be_used_is_refused(tmp_path, change, message):
    with pytest.raises(OfclError, match=re.escape(message)):
        read_run({"parties": "a,b", "out": str(tmp_path / "run"), **change})


def test_the_command_that_goes_on_is_flowers(tmp_path):
    stage = make_stage(asked(tmp_path / "run"), OneProcess([]))
    assert "flwr run" in stage.resume_command(tmp_path)
