"""The facts that the page shows are those of the files, at the server and at a party."""

import asyncio
import json
import math
import os
import re

import httpx
import pytest

from ofcl import OfclError
from ofcl.federation.party_side.audit_files import FILE as AUDIT
from ofcl.federation.server_side import run_status
from ofcl.federation.status_file import MOST_LINES, StatusFile, read_status
from ofcl.inference.service.access_check import Access
from ofcl.inference.watch.federation_metrics import metrics_text
from ofcl.inference.watch.party_facts import PartyFacts
from ofcl.inference.watch.server_facts import SILENT, ServerFacts
from ofcl.inference.watch.watch_app import WEB, make_watch_app, source_of
from tests.support.federation import PARTIES, SMALL
from tests.support.watched import finished

SHORT = {**SMALL, "limit": 6, "tasks": 2, "dp_clip": 1.0, "dp_noise": 2.0}


def spoilt(transport):
    """Lets the second party's third answer be nonsense."""
    honest, answers = transport.members[1].answer, []

    def answer(message):
        answers.append(honest(message))
        return {"run": "?"} if len(answers) == 3 else answers[-1]

    transport.members[1].answer = answer


@pytest.fixture(scope="module")
def over(tmp_path_factory):
    """A federation whose run is over, and the run's result."""
    folder = tmp_path_factory.mktemp("watched") / "trial"
    run = finished(folder, SHORT, spoilt, local_too=True)
    return folder, run


def test_the_server_shows_the_run_and_what_was_rejected(over):
    folder, run = over
    facts, result = ServerFacts(folder).collect(), run.result()
    shown = facts["run"]
    assert (shown["state"], shown["round"], shown["name"]) == ("finished", result.rounds, "first")
    assert (shown["A"], shown["F"]) == (result.A, result.F)
    assert shown["anytime"] == result.anytime_accuracy
    assert (shown["bytes_sent"], shown["bytes_received"]) == (
        result.bytes_sent, result.bytes_received
    )  # fmt: skip
    assert shown["epsilon"] == pytest.approx(run.epsilon())
    assert [number for number, _ in shown["course"]] == list(range(1, result.rounds + 1))
    assert 0 < shown["round_seconds"] < shown["seconds"]
    assert facts["certificate_days"] > 60
    ((_, why),) = facts["rejected"]
    assert why.startswith("rejected what hospital-b has sent: ")


def test_the_server_shows_each_party(over):
    folder, run = over
    batches = {row["client"]: row["batches"] for row in run.result().anytime if row["task"] == 1}
    for number, party in enumerate(ServerFacts(folder).collect()["parties"]):
        assert party["name"] == PARTIES[number]
        assert party["batches"] > batches[number] > 0
        assert (party["classes"], len(party["labels"]), party["task"]) == (10, 10, 2)
        assert party["answered"] > 1e9
        assert party["waited"] is None


def test_a_party_shows_its_own_numbers(over):
    folder, run = over
    result = run.result()
    for number, name in enumerate(PARTIES):
        facts = PartyFacts(folder / name).collect()
        told = [row for row in result.anytime if row["client"] == number]
        assert facts["learned"] == sum(row["batches"] for row in told)
        right = 100 * sum(r["correct"] for r in told) / sum(r["samples"] for r in told)
        assert facts["anytime"] == pytest.approx(right)
        assert facts["A"] == pytest.approx(sum(result.accuracy[number][-1]) / 2, abs=0.01)
        audited = [json.loads(line) for line in (folder / name / AUDIT).read_text().splitlines()]
        assert facts["bytes_sent"] == sum(line["bytes"] for line in audited)
        assert facts["messages"] == len(audited)
        assert 0 < facts["epsilon"] < math.inf
        assert [row["task"] for row in facts["helps"]["tasks"]] == [1, 2]
        assert {"global", "own", "alone", "chance"} <= set(facts["helps"]["tasks"][-1])


def test_the_server_shows_nothing_that_the_audit_files_do_not_name(over):
    folder, _ = over
    named = {
        field["field"]
        for line in (folder / "hospital-a" / AUDIT).read_text().splitlines()
        for field in json.loads(line)["fields"]
    }
    come_from = {
        "batches": "events", "task": "events", "anytime": "events", "A": "events", "F": "events",
        "classes": "labels", "labels": "labels", "name": "party",
        # Of the connection and of messages, not of what is in them.
        "left": None, "connected": None, "since": None, "answered": None, "failed": None,
        "took": None, "waited": None,
    }  # fmt: skip
    shown = ServerFacts(folder).collect()["parties"][0]
    assert set(shown) == set(come_from)
    assert {field for field in come_from.values() if field} <= named
    status = (folder / "server" / "status.json").read_text()
    assert "mean" not in status  # the rest of an introduction
    assert len(status) < 10_000


def test_who_is_waited_for_and_a_process_without_a_sign_of_life(over, tmp_path):
    folder, _ = over
    path = folder / "server" / "status.json"
    before, at = path.read_text(), path.stat().st_mtime
    facts = json.loads(before)
    facts["state"] = "running"
    facts["parties"]["hospital-b"] |= {"connected": True, "since": at - 50, "asked": at - 7}
    path.write_text(json.dumps(facts))
    os.utime(path, (at, at))
    try:
        shown = ServerFacts(folder, clock=lambda: at + 1).collect()
        assert [(p["name"], p["waited"]) for p in shown["waited_for"]] == [("hospital-b", 8.0)]
        assert shown["parties"][1]["connected"]
        later = ServerFacts(folder, clock=lambda: at + SILENT + 1).collect()
        assert (later["run"]["state"], later["waited_for"]) == ("silent", [])
    finally:
        path.write_text(before)


def test_metrics_are_in_the_format_of_prometheus(over):
    folder, run = over
    text = metrics_text(ServerFacts(folder).collect())
    assert f"\nofcl_run_round_total {run.result().rounds}\n" in text
    assert "\nofcl_run_rejected_total 1\n" in text
    assert '\nofcl_party_connected{party="hospital-c"} 0\n' in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    own = metrics_text(PartyFacts(folder / "hospital-a").collect())
    assert 'ofcl_party_model_accuracy{party="hospital-a",model="alone"} ' in own


def test_events_are_read_on_and_after_a_resumed_line_anew(over):
    folder, run = over
    facts = ServerFacts(folder)
    whole = facts.collect()["run"]
    path = run.directory.path / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    try:
        path.write_text("".join(lines[:10]) + lines[10][:30])
        assert facts.collect()["run"]["seconds"] == json.loads(lines[9])["seconds"]
        with path.open("a") as file:
            file.write(lines[10][30:] + lines[11])
        assert facts.collect()["run"]["seconds"] == json.loads(lines[11])["seconds"]
        with path.open("a") as file:
            file.write(json.dumps({"event": "resumed", "after": 11}) + "\n" + "".join(lines[11:]))
        assert facts.collect()["run"] == whole
    finally:
        path.write_text("".join(lines))


def test_the_status_file_stays_small_and_a_damaged_one_is_none(tmp_path):
    file = StatusFile(tmp_path / "s.json", {"rejected": []}, between=0.0)
    for n in range(500):
        file.line(f"{n} " + "x" * 5000)
    assert (tmp_path / "s.json").stat().st_size < 1000 * MOST_LINES
    assert len(read_status(tmp_path / "s.json")["lines"]) == MOST_LINES
    (tmp_path / "s.json").write_text("[1")
    assert read_status(tmp_path / "s.json") == {}
    assert run_status.MOST_REJECTED < 100


def test_a_folder_that_is_neither_is_refused(tmp_path):
    with pytest.raises(OfclError, match="neither a federation"):
        source_of(tmp_path)


def test_the_final_card_of_a_partys_model_says_whether_taking_part_helps(over):
    folder, _ = over
    card = (folder / "hospital-a" / "model" / "README.md").read_text()
    helps = json.loads((folder / "hospital-a" / "helps.json").read_text())["tasks"][-1]
    assert f"of a model learned from the party's data alone (%) | {helps['alone']:.1f} |" in card
    assert f"| test samples of the party | {helps['samples']} |" in card


def asked(folder, path, access, headers=None, method="GET"):
    async def ask():
        app = make_watch_app(source_of(folder), access, pytest.fail)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


def test_the_page_needs_a_token_where_there_is_one_and_changes_nothing(over):
    folder, _ = over
    open_, closed = Access("127.0.0.1"), Access("0.0.0.0", "t" * 16)
    assert asked(folder, "/facts", open_).json()["name"] == "trial"
    assert asked(folder, "/facts", open_, {"host": "evil.example"}).status_code == 403
    assert asked(folder, "/facts", open_, method="POST").status_code == 405
    for path in ("/facts", "/metrics"):
        assert asked(folder, path, closed).status_code == 401
        token = {"authorization": "Bearer " + "t" * 16}
        assert asked(folder, path, closed, token).status_code == 200
    for path in WEB:  # they say nothing of the federation
        page = asked(folder, path, closed)
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page.text)
        assert "hospital" not in page.text


def test_the_pages_show_cross_site_validation_to_whom_it_belongs(tmp_path):
    settings = {**SMALL, "limit": 4, "tasks": 1, "closing_round": "end", "cross_site": True}
    run = finished(tmp_path / "trial", settings, cross_site=True)
    found = run.result().cross_site
    shown = ServerFacts(tmp_path / "trial").collect()["cross_site"]
    assert shown["parties"] == list(PARTIES)
    assert [row["model"] for row in shown["rows"]] == [None, *PARTIES]
    assert [row["accuracy"] for row in shown["rows"]] == [row["accuracy"] for row in found]
    own = PartyFacts(tmp_path / "trial" / "hospital-b").collect()["helps"]["cross_site"]
    assert [row["accuracy"] for row in own["here"]] == [
        round(row["accuracy"][1], 2) for row in found
    ]
    assert [row["accuracy"] for row in own["elsewhere"]] == [
        round(found[2]["accuracy"][k], 2) for k in (0, 2)
    ]


def test_without_cross_site_validation_nothing_is_shown_of_it(over):
    folder, _ = over
    assert ServerFacts(folder).collect()["cross_site"] is None
    assert "cross_site" not in PartyFacts(folder / "hospital-a").collect()["helps"]
