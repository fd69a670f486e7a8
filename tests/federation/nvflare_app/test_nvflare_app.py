"""A run as a job of NVFlare, in one process: the sites are stand-ins, all else is real."""

import ast
import json
import re
from dataclasses import replace

import pytest
import torch

import ofcl
from ofcl import OfclError, Run
from ofcl.federation.nvflare_app.site_party import SiteParty, read_site
from ofcl.federation.nvflare_app.task_payload import as_payload, from_payload
from ofcl.federation.nvflare_app.task_transport import LATE, TaskTransport
from ofcl.federation.server_side import courier
from ofcl.federation.server_side.hosted_run import HostedRun, in_words
from ofcl.federation.transport import FAILED
from tests.support.environments import ROOT
from tests.support.federation import SMALL, locally, send_exactly

NAMES = ("hospital-a", "hospital-b", "hospital-c")
JOB = ROOT / "examples" / "nvflare_app" / "job" / "app" / "config"


class OneProcess:
    """The sites of a job in this process; each has a party that stays until it is killed."""

    def __init__(self, folder, names=NAMES):
        self.folder, self.parties = folder, {}
        for name in names:
            self.start(name)
        self.asked, self.stopped = [], False
        self.on_ask, self.on_look = (lambda site: None), (lambda: None)

    def start(self, name):
        file = self.folder / f"{name}.toml"
        if not file.exists():
            file.write_text('dataset = "digits"\nshare = true\n')
        send_exactly(self.folder / name)
        self.parties[name] = SiteParty(read_site(file, name, self.folder / name, print))

    def kill(self, name):
        self.parties.pop(name).close()

    def check(self):
        if self.stopped:
            raise OfclError("the job is stopped")

    def present(self):
        here = set(self.parties)
        self.on_look()
        return here

    def ask(self, site, payload, answered):
        self.asked.append(site)
        self.on_ask(site)
        if site in self.parties:  # else it has died with the task
            answered(as_payload(self.parties[site].answer(from_payload(payload))))


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(courier, "LOOK_AGAIN", 0.0)
    monkeypatch.setattr(courier, "LOOK_WHO", 0.0)


def asked(out, **change):
    return HostedRun.of("nvflare", ",".join(NAMES), str(out), {**SMALL, **change})


def opened(run, sites):
    stage = run.stage(TaskTransport(sites, run.parties), "submit the job again")
    if run.begun:
        return Run.resume(run.out, stage=stage, tell=lambda _: None)
    return Run(run.settings, out=run.out, stage=stage, tell=lambda _: None)


def assert_as_local(run):
    _, server = locally()
    for name, value in server.model.items():
        assert torch.equal(run.server.model[name], value), name


def test_the_model_is_that_of_the_local_engine(tmp_path):
    run = opened(asked(tmp_path / "run"), OneProcess(tmp_path))
    list(run)
    assert_as_local(run)
    assert (tmp_path / "hospital-a" / "model" / "model.json").exists()
    assert (tmp_path / "run" / "model" / "model.json").exists()
    with pytest.raises(OfclError, match="finished"):
        _ = asked(tmp_path / "run").begun


def test_a_site_that_dies_is_asked_again_when_it_is_back(tmp_path):
    sites, died = OneProcess(tmp_path), []

    def die(site):
        if len(sites.asked) == 10:  # before it has answered
            died.append(site)
            sites.kill(site)

    def come_back():  # after a look that has missed it
        for site in died:
            if site not in sites.parties:
                sites.start(site)

    sites.on_ask, sites.on_look = die, come_back
    run = opened(asked(tmp_path / "run"), sites)
    list(run)
    assert len(died) == 1
    assert_as_local(run)  # all are waited for: min_clients is 3


def test_a_job_that_is_stopped_goes_on_in_another(tmp_path):
    sites = OneProcess(tmp_path)
    run = opened(asked(tmp_path / "run"), sites)

    def stop(site):
        sites.stopped = len(sites.asked) == 12

    sites.on_ask = stop
    with pytest.raises(OfclError, match="stopped"):
        list(run)
    run.close()
    for name in NAMES:
        sites.kill(name)
    again = opened(asked(tmp_path / "run"), OneProcess(tmp_path))
    list(again)
    assert_as_local(again)


def test_a_site_that_was_away_counts_as_a_new_process(tmp_path):
    sites = OneProcess(tmp_path, NAMES[:2])
    transport = TaskTransport(sites, NAMES)
    assert transport.connected() == {0: "1", 1: "1"}
    sites.kill("hospital-b")
    assert transport.connected() == {0: "1"}
    sites.start("hospital-b")
    assert transport.connected() == {0: "1", 1: "2"}


def test_why_a_site_could_not_answer_stays_there(tmp_path, capsys):
    (tmp_path / "hospital-a.toml").write_text('dataset = "missing.csv"')
    transport = TaskTransport(OneProcess(tmp_path, NAMES[:1]), NAMES)
    sent = transport.send(0, {})
    assert transport.fetch([sent])[sent].content is None
    assert "missing.csv" in capsys.readouterr().out


def test_two_jobs_do_not_work_in_one_folder(tmp_path):
    first, second = OneProcess(tmp_path, NAMES[:1]), OneProcess(tmp_path, NAMES[:1])
    message = {"number": 0, "content": {}}
    assert "party" in first.parties[NAMES[0]].answer(message).tree
    assert second.parties[NAMES[0]].answer(message) == FAILED
    first.kill(NAMES[0])
    assert "party" in second.parties[NAMES[0]].answer(message).tree


class Answering:
    """Sites that answer at once with what they are given."""

    def __init__(self, answer):
        self.answer = answer

    def check(self):
        return None

    def present(self):
        return NAMES

    def ask(self, site, payload, answered):
        answered(self.answer)


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (None, None),
        ({}, {}),
        ({"tensors": b"", "values": "{}"}, {}),
        ({"tensors": "text", "values": "{}"}, {}),
        (as_payload({"a": torch.ones(2), "failed": True})["tensors"], {}),
        (as_payload(FAILED), None),
        (as_payload({"round": 3}), {"round": 3}),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_empty_state(answer, content):
    transport = TaskTransport(Answering(answer), NAMES)
    sent = transport.send(1, {})
    assert transport.fetch([sent])[sent].content == content
    assert transport.fetch([sent]) == {}  # each is handed out once


def test_answers_that_nobody_waits_for_are_dropped_in_the_end():
    transport = TaskTransport(Answering(as_payload({})), NAMES)
    sent = [transport.send(0, {}) for _ in range(LATE * len(NAMES) + 1)]
    transport.fetch([])
    assert transport.fetch(sent[:1]) == {}
    assert len(transport.fetch(sent)) == LATE * len(NAMES)


def test_a_state_travels_bit_for_bit():
    state = {"a": torch.tensor([0.1, float("nan"), -0.0]), "b": [1, {"c": None}]}
    back = from_payload({**as_payload(state), "more": 1})
    assert back["b"] == state["b"]
    assert back["a"].numpy().tobytes() == state["a"].numpy().tobytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "write it into this site's"),
        ("", "has no 'dataset'"),
        ("dataset = ", "cannot be read"),
        ('dataset = "-"', "standard input"),
        ('dataset = "digits"\nkeep = "all"', "expected one of global, own"),
        ('dataset = "digits"\nparty = "hospital-b"', "this site is 'hospital-a'"),
        ('dataset = "digits"\nfolder = ""', "has no 'folder'"),
    ],
)
def test_a_sites_configuration_that_cannot_be_used_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "ofcl.toml").write_text(text)
    with pytest.raises(OfclError, match=re.escape(message)):
        read_site(tmp_path / "ofcl.toml", "hospital-a", tmp_path / "ofcl", print)


@pytest.mark.parametrize(
    ("parties", "settings", "message"),
    [
        ("", {}, "expected the names"),
        ("a,a", {}, "each once"),
        ("a,b", {"secure_aggregation": True}, "needs the parties' keys"),
        ("a,b", {"dataset": "digits"}, "decided by each party"),
        ("a,b", {"model": "subprocess:getoutput"}, "which would be read and run at the server"),
        ("a,b", {"start": "/etc"}, "which would be read and run at the server"),
    ],
)
def test_a_job_that_cannot_be_run_is_refused(tmp_path, parties, settings, message):
    with pytest.raises(OfclError, match=re.escape(message)):
        HostedRun.of("nvflare", parties, str(tmp_path), settings)


def test_a_result_without_a_number_can_be_told(tmp_path):
    run = opened(asked(tmp_path / "run", tasks=1, limit=2), OneProcess(tmp_path))
    list(run)
    told = in_words(run.result(), tmp_path)
    assert told == f"A {run.result().A:.1f}; saved in {tmp_path}"
    nothing = replace(run.result(), A=None)
    assert in_words(nothing, tmp_path) == f"the run is over; saved in {tmp_path}"


def classes(path):
    module, _, name = path.rpartition(".")
    file = ROOT / (module.replace(".", "/") + ".py")
    found = {node.name: node for node in ast.parse(file.read_text()).body
             if isinstance(node, ast.ClassDef)}  # fmt: skip
    init = next(n for n in found[name].body if getattr(n, "name", "") == "__init__")
    return {argument.arg for argument in init.args.args} - {"self"}


def test_the_example_job_names_classes_and_arguments_that_there_are():
    server = json.loads((JOB / "config_fed_server.json").read_text())["workflows"][0]
    site = json.loads((JOB / "config_fed_client.json").read_text())["executors"][0]
    assert set(server["args"]) == classes(server["path"])
    assert set(site["executor"]["args"]) == classes(site["executor"]["path"]) == set()
    controller = (ROOT / (server["path"].rpartition(".")[0].replace(".", "/") + ".py")).read_text()
    assert f'TASK = "{site["tasks"][0]}"' in controller
    made = HostedRun.of("nvflare", server["args"]["parties"], "run", server["args"]["settings"])
    assert made.settings.memory == 200


def test_only_the_modules_called_so_import_nvflare():
    package = ROOT / "ofcl"
    imports = re.compile(r"^\s*(from|import) nvflare", re.MULTILINE)
    importing = [
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if imports.search(file.read_text())
    ]
    assert sorted(importing) == [
        "federation/nvflare_app/nvflare_controller.py",
        "federation/nvflare_app/nvflare_executor.py",
    ]
    assert ofcl.__file__.startswith(str(ROOT))
