"""Both sides are told what is wrong, by name, and advised to do what they can do."""

import datetime
import errno
import shutil
import socket
import ssl
import threading
from types import SimpleNamespace

import pytest

from ofcl import OfclError
from ofcl.cli.progress import LiveLines
from ofcl.events import Appeared, Round
from ofcl.experiment import Run
from ofcl.federation.party_side import flower_calls, flower_connection
from ofcl.federation.party_side import member as member_module
from ofcl.federation.party_side.audit import Audit
from ofcl.federation.party_side.flower_calls import Caller, Refused, RunOver
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.server_side.alias_table import joined, load_aliases
from ofcl.federation.server_side.stage import FederationStage
from ofcl.federation.setup import keys
from ofcl.storage import checkpoint
from tests.support.federation import FEDERATION, SMALL, InProcess, hosted, member, members

# Certificates and clocks


def certificate(monkeypatch, begins, ends):
    """A server's certificate between two days from now, and the authority that signed it."""
    authority = keys.make_authority("trial")
    builder = keys._builder

    def between(*how):
        made, now = builder(*how), datetime.datetime.now(datetime.UTC)
        made._not_valid_before = (now + datetime.timedelta(days=begins)).replace(tzinfo=None)
        made._not_valid_after = (now + datetime.timedelta(days=ends)).replace(tzinfo=None)
        return made

    monkeypatch.setattr(keys, "_builder", between)
    return authority, keys.certify(authority, ["localhost", "127.0.0.1"])


@pytest.mark.parametrize(("begins", "ends", "said"), [
    (-9, -2, r"certificate of the server at .* has expired, by the clock here \(20\d\d-.*renew"),
    (2, 9, r"the clock here is behind: it says 20\d\d-.* Set it by NTP"),
])  # fmt: skip
def test_an_expired_certificate_and_a_slow_clock_are_called_what_they_are(
    tmp_path, monkeypatch, begins, ends, said
):
    import httpx

    authority, made = certificate(monkeypatch, begins, ends)
    for name, content in (("ca", authority.certificate), ("crt", made.certificate),
                          ("key", made.key)):  # fmt: skip
        (tmp_path / name).write_bytes(content)
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with pytest.raises((ssl.SSLError, OSError)), server.accept()[0] as call:
                listening.wrap_socket(call, server_side=True).recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        trusted = ssl.create_default_context(cafile=tmp_path / "ca")
        client = httpx.Client(verify=trusted)
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        caller = Caller("here:1", plain=False, tell=print, leaving=threading.Event())
        with pytest.raises(Refused, match=said):
            caller.call(client.get, url)
        thread.join()


# Disks


def test_a_full_disk_at_a_party_gives_advice_that_a_party_can_follow(tmp_path, monkeypatch):
    transport = InProcess(members(tmp_path))
    run, _ = hosted(tmp_path, transport)
    next(iter(run))
    request = run.engine._standing.request(0, run.server.model)
    message = {"request": vars(request), "terms": vars(run.engine._channel._terms())}
    message["terms"]["samples"] = vars(message["terms"]["samples"])

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_state", full)
    message["request"] = {**vars(request), "exchange": 99}
    with pytest.raises(OfclError, match="No space left .* goes on by itself") as error:
        transport.members[0].answer(message)
    assert "ofcl resume" not in str(error.value)


def test_damaged_states_at_a_party_give_advice_that_helps(tmp_path, monkeypatch):
    monkeypatch.setattr(member_module, "LOST_WAIT", 0.0)
    transport = InProcess(members(tmp_path))
    run, said = hosted(tmp_path, transport, {**SMALL, "min_clients": 2})
    told = []
    for event in run:
        if isinstance(event, Round) and event.round == 2 and not told:
            for file in (tmp_path / "hospital-c" / "runs").rglob("tensors.safetensors"):
                file.write_bytes(b"damaged")
            transport.members[2] = spoilt = member(tmp_path, 2)
            spoilt._tell = told.append
            with pytest.raises(OfclError, match="is damaged; .* start this party with --accept-l"):
                spoilt.answer(last_message(run))
            folder = tmp_path / "hospital-c" / "runs"  # as advised
            shutil.move(next(folder.iterdir()), tmp_path / "aside")
            transport.members[2] = member(tmp_path, 2, accept_loss=True)
            told.append("done")
    assert any("hospital-c goes on without" in line for line in said)


def last_message(run):
    terms = vars(run.engine._channel._terms())
    request = run.engine._standing.request(2, run.server.model)
    return {"request": vars(request), "terms": {**terms, "samples": vars(terms["samples"])}}


def test_an_audit_file_that_cannot_be_written_is_a_line_and_the_party_goes_on(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(flower_calls, "TRY_AGAIN", 0.001)
    (tmp_path / "audit.jsonl").mkdir()
    audit, said = Audit(tmp_path), []
    with pytest.raises(OfclError, match="nothing leaves this party without it"):
        audit.write({}, what="failure")
    caller = Caller("here:1", plain=False, tell=print, leaving=threading.Event())
    connection = SimpleNamespace(_tell=said.append, _caller=caller)

    def failed():
        if len(tries := [*said]) and not calls:
            (tmp_path / "audit.jsonl").rmdir()  # somebody mends it
            calls.append(tries)
        audit.write({}, what="failure")

    calls = []
    flower_connection.FlowerConnection._note_failure(connection, failed)
    assert len(said) == 1
    assert "Traceback" not in said[0]
    assert (tmp_path / "audit.jsonl").read_text().count("failure") == 1
    caller._leaving.set()
    with pytest.raises(RunOver):  # and it can be stopped
        flower_connection.FlowerConnection._note_failure(connection, lambda: audit_gone(tmp_path))


def audit_gone(folder):
    Audit(folder / "nowhere").write({}, what="failure")


# Names, counts, spellings


def table(folder, number, labels):
    rows = [f"{n % 7 + n % 2}.0,{-n % 5}.5,{labels[n % 2]}" for n in range(60)]
    path = folder / f"{number}.csv"
    folder.mkdir(exist_ok=True)
    path.write_text("\n".join(["a,b,label", *rows]))
    return open_source({"dataset": str(path), "label": "label"}, False, lambda _: None)


TABLES = {**SMALL, "tasks": 1, "batch_size": 6}


def of_tables(tmp_path, aliases=None):
    spelled = (("Type 1", "other"), ("Type 1", "other"), ("type1", "other"))
    parties = {k: member(tmp_path, k, table(tmp_path, k, spelled[k])) for k in range(3)}
    told = []
    parties[2]._tell = told.append
    run, said = hosted(tmp_path, InProcess(parties), TABLES, aliases=aliases)
    list(run)
    return run, said, told


def test_two_spellings_are_pointed_out_on_both_sides_and_can_be_joined(tmp_path):
    run, said, told = of_tables(tmp_path / "apart")
    assert run.labels == ("Type 1", "other", "type1")
    assert sum("'Type 1' and 'type1' differ in case" in line for line in said) == 1
    assert sum("your label 'type1' and 'Type 1' of the run" in line for line in told) == 1
    run, said, told = of_tables(tmp_path / "joined", {"type1": "Type 1"})
    assert run.labels == ("Type 1", "other")
    assert not any("differ in case" in line for line in [*said, *told])


def test_the_alias_table(tmp_path):
    assert load_aliases(tmp_path) == {}
    file = tmp_path / "aliases.toml"
    file.write_text('"type1" = "Type 1"\n"T1" = "Type 1"\n')
    assert load_aliases(tmp_path) == {"type1": "Type 1", "T1": "Type 1"}
    for text, problem in (("a = 1", "write"), ('a = "b"\nb = "c"', "choose one"), ("a", "be read"),
                          ('a = "\\u001b[2J"', "cannot be the name")):  # fmt: skip
        file.write_text(text)
        with pytest.raises(OfclError, match=problem):
            load_aliases(tmp_path)
    # A class that models have learned stays one.
    assert joined({"x": "X"}, ("X", "y"), {"y": "X", "z": "X"}) == {"x": "X", "z": "X"}


def test_aliases_are_those_of_the_run_when_it_goes_on(tmp_path):
    spelled = (("Type 1", "other"), ("Type 1", "other"), ("type1", "other"))
    parties = {k: member(tmp_path, k, table(tmp_path, k, spelled[k])) for k in range(3)}
    transport = InProcess(parties)
    run, _ = hosted(tmp_path, transport, TABLES, aliases={"type1": "Type 1"}, out=tmp_path / "run")
    next(event for event in run if isinstance(event, Round))
    stage = FederationStage(FEDERATION, tmp_path, transport)
    resumed = Run.resume(tmp_path / "run", tell=lambda _: None, stage=stage)
    list(resumed)
    assert resumed.labels == ("Type 1", "other")


def test_the_server_speaks_of_parties_by_name_with_true_counts(tmp_path):
    run, _ = hosted(tmp_path, InProcess(members(tmp_path)))
    lines = []
    console = SimpleNamespace(print=lambda line, **_: lines.append(line))
    shown = LiveLines(run, "bi", console)
    shown.show(Appeared(1, "a\x1b[2Jb", 10))
    assert lines == ["bi: hospital-b: a new class, 'a·[2Jb'"]
    shown._printed = -1e9
    next(iter(run))
    shown.show(Round(1, [0], 0, 0, 0))
    assert "  10 classes  " in lines[-1]


# Cut off


def test_a_party_that_comes_back_when_all_others_have_finished_is_told_and_so_is_the_server(
    tmp_path,
):
    told = []
    transport = InProcess(members(tmp_path))
    transport.members[2]._tell = told.append
    run, said = hosted(tmp_path, transport, {**SMALL, "min_clients": 2})
    for event in run:
        if isinstance(event, Round) and event.round == 1:
            transport.away.add(2)
        if run.engine._standing.status[:2] == ["finished"] * 2:
            transport.away.clear()
    line = "all others have finished: hospital-c learns alone from now on, and no round will follow"
    assert sum(line in said_line for said_line in said) == 1
    assert sum("all others have finished: this party learns alone" in t for t in told) == 1


def test_a_party_that_is_never_alone_is_not_told_so(tmp_path):
    run, said = hosted(tmp_path, InProcess(members(tmp_path)))
    list(run)
    assert not any("alone" in line for line in said)
