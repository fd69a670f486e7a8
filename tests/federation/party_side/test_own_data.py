"""A party's own dataset or stream."""

import json
import os
import threading
import time

import numpy as np
import pytest

from ofcl import make_settings
from ofcl.data.live.vocabulary import AssignedVocabulary
from ofcl.data.scenario import build_scenario
from ofcl.events import Appeared, Evaluated, Learned
from ofcl.federation.party_side.own_data import open_source
from ofcl.federation.terms import (
    Terms,
    travelling_settings,
)
from ofcl.storage.checkpoint import load_checkpoint
from tests.support.federation import (
    SMALL,
    InProcess,
    hosted,
    member,
)


def test_own_data_are_learned_whole_and_classes_have_the_places_of_the_federation(tmp_path):
    draw = np.random.default_rng(0)

    def table(name, labels):
        path = tmp_path / f"{name}.npz"
        y = np.repeat(labels, 40)
        x = draw.normal(0, 0.3, (len(y), 4)) + np.array([len(label) for label in y])[:, None]
        np.savez(path, x=x, y=y)
        return open_source({"dataset": str(path)}, False, lambda _: None)

    first = table("one", ["a", "ccc", "zzzzzzzzz"])
    second = table("two", ["bbbbbb", "ccc"])
    transport = InProcess({0: member(tmp_path, 0, first), 1: member(tmp_path, 1, second)})
    settings = {**SMALL, "tasks": 2, "min_clients": 2}
    run, _ = hosted(tmp_path, transport, settings)
    events = iter(run)
    for event in events:
        if isinstance(event, Evaluated) and event.task == 1 and event.client == 1:
            break
    assert run.labels == ("a", "ccc", "zzzzzzzzz", "bbbbbb")
    y = set(transport.members[0]._responder._client.learner.memory.samples.y.tolist())
    assert y == {0, 1, 2}
    assert set(transport.members[1]._responder._client.learner.memory.samples.y.tolist()) == {1, 3}
    events.close()


def test_streams_ask_for_places_of_labels_and_heads_grow(tmp_path):
    folders = []
    for name, words in (("a", ["cat", "dog"]), ("b", ["Cat ", "bird"]), ("c", ["dog", "C at"])):
        folder = tmp_path / f"in-{name}"
        folder.mkdir()
        for part, word in enumerate(words):
            rows = "".join(f"{n % 7},{part * 3 + n % 3},{word}\n" for n in range(60))
            (folder / f"{part}.csv").write_text("u,v,label\n" + rows)
        folders.append(folder)
    values = {"idle": 0.3, "window": 5}
    sources = [open_source({"dataset": f"watch:{f}", **values}, False, lambda _: None)
               for f in folders]  # fmt: skip
    transport = InProcess({k: member(tmp_path, k, source) for k, source in enumerate(sources)})
    settings = {"method": "er", "memory": 20, "hidden": 8, "burn_in": 1, "q": 2, "patience": 0.5,
                "min_clients": 2}  # fmt: skip
    run, said = hosted(tmp_path, transport, settings, out=tmp_path / "run")
    events = list(run)
    appeared = [event.label for event in events if isinstance(event, Appeared)]
    assert sorted(appeared) == ["C at", "Cat", "bird", "cat", "dog"]
    assert [event.place for event in events if isinstance(event, Appeared)] == [0, 1, 2, 3, 4]
    alike = [line for line in said if "differ in case or spaces" in line]
    assert len(alike) == 2
    learned = {k: sum(e.samples for e in events if isinstance(e, Learned) and e.client == k)
               for k in range(3)}  # fmt: skip
    assert learned == {0: 120, 1: 120, 2: 120}
    assert len(run.server.model["head.bias"]) == 5
    assert run.settings.streams == ("at each party",) * 3
    assert run.directory.settings().streams == ("at each party",) * 3


def test_a_stream_that_fails_is_opened_again_and_nothing_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr("ofcl.federation.server_side.courier.AFTER_FAILURE", 0.1)
    monkeypatch.setattr("ofcl.federation.server_side.courier.LOOK_WHO", 0.05)
    folder = tmp_path / "in"
    folder.mkdir()
    rows = "".join(f"{n % 7},{n % 3},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "0.csv").write_text("u,v,label\n" + rows)
    (folder / "1.csv").write_text("u,v,label\n" + rows + "1,oops,a\n" + rows)
    values = {"idle": 0.3, "window": 5}
    transport = InProcess({
        k: member(tmp_path, k, open_source({"dataset": f"watch:{folder}", **values}, False, print))
        for k in range(3)
    })  # fmt: skip
    settings = {"method": "er", "memory": 20, "hidden": 8, "burn_in": 1, "q": 2, "patience": 0.5,
                "min_clients": 2}  # fmt: skip
    run, said = hosted(tmp_path, transport, settings)
    mended = "u,v,label\n" + rows + "1,2,a\n" + rows

    def mend():
        until = time.monotonic() + 60
        while time.monotonic() < until and not any("could not answer" in line for line in said):
            time.sleep(0.05)
        (folder / "1.csv").write_text(mended)

    mending = threading.Thread(target=mend)
    mending.start()
    counts = dict.fromkeys(range(3), 0)
    for event in run:
        if isinstance(event, Learned):
            counts[event.client] += event.samples
    mending.join()
    assert counts == {0: 181, 1: 181, 2: 181}
    assert any("could not answer" in line for line in said)


def test_two_introductions_lose_no_sample_of_a_stream_that_comes_once(monkeypatch):
    lines = "".join(json.dumps({"x": [n % 5, n % 3], "label": "ab"[n % 2]}) + "\n"
                    for n in range(30))  # fmt: skip
    read, write = os.pipe()
    os.write(write, lines.encode())
    os.close(write)
    with os.fdopen(read) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        source = open_source({"dataset": "-", "window": 2}, False, print)
        assert source.samples() == source.samples()
        made = make_settings({"method": "er", "hidden": 8, "batch_size": 4})
        terms = Terms(travelling_settings(made), 1, ("a", "b"), 0, source.samples())
        client = source.client(terms, 0, AssignedVocabulary(("a", "b"))).client
        seen = []
        while client.stream.ready() and client.stream.next_task() is not None:
            seen.append(len(next(client.stream).y))
    assert seen == [4] * 7 + [2]  # the run's mini-batches, not the party's


def test_labels_that_come_late_are_in_the_last_task():
    y = np.repeat(np.arange(5), 20)
    early = build_scenario(y[y < 4], y[y < 4], 4, seed=0, clients=1, tasks=2)
    late = build_scenario(y, y, 4, seed=0, clients=1, tasks=2)
    assert late[0].tasks[0] == early[0].tasks[0]
    assert late[0].tasks[1] == (*early[0].tasks[1], 4)
    assert {int(c) for c in y[late[0].train[1]]} == {*early[0].tasks[1], 4}


def test_a_forgotten_row_of_a_table_is_in_no_file(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    rows = "".join(f"{n * 1.125 + 1000},{n % 3},{'ab'[n % 2]}\n" for n in range(60))
    (folder / "0.csv").write_text("u,v,label\n" + rows)
    values = {"dataset": f"watch:{folder}", "idle": 0.3, "window": 20}
    transport = InProcess(
        {k: member(tmp_path, k, open_source(values, False, print)) for k in range(3)}
    )
    settings = {"method": "er", "memory": 60, "hidden": 8, "burn_in": 1, "q": 2, "patience": 0.5,
                "min_clients": 2}  # fmt: skip
    run, _ = hosted(tmp_path, transport, settings)
    list(run)
    (state,) = (tmp_path / "hospital-a" / "runs").iterdir()
    saved = load_checkpoint(state, pytest.fail).state["client"]
    assert sorted(saved["stream"]["form"]) == ["codes", "columns", "count", "mean", "scale"]
    assert saved["stream"]["form"]["codes"] == []
    assert saved["stream"]["form"]["mean"].shape == (2,)
