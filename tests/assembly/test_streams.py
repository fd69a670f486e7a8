"""Runs over streams that have no end: growing, testing first, going on after whatever happens."""

import contextlib
import json
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.data.live import watched_folder
from ofcl.data.live.sample import StreamError
from ofcl.events import Appeared, Evaluated, Halted, Learned, Round
from ofcl.experiment import Interrupted
from tests.support.commands import Command, in_one_process
from tests.support.commands import ofcl as command
from tests.test_experiment import assert_same, whole

TINY = {
    "protocol": "sound", "method": "bi", "memory": 12, "burn_in": 2, "q": 2, "hidden": 16,
    "batch_size": 5, "steps": 2, "lr": 0.02,
}  # fmt: skip


def samples(seed, n=60, tasks=(("a", "b"), ("c",), ("d", "a")), named=True):
    """Vectors around a place that depends on the label; another task after every `n`."""
    draw = np.random.default_rng(seed)
    for t, labels in enumerate(tasks):
        for i in range(n):
            label = labels[i % len(labels)]
            x = draw.normal(0, 0.3, size=6).astype(np.float32)
            x["abcd".index(label)] += 2
            yield (x, label, f"task {t}") if named else (x, label)


def reopened(seed, **options):
    """A stream that can be opened behind so many samples."""
    return lambda start: list(samples(seed, **options))[start:]


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_classes_nobody_announced_are_learned():
    test = list(samples(2, named=False))
    run = Run(make_settings(TINY), streams=[samples(0), samples(1)], test=test)
    events = list(run)
    assert run.labels == ("a", "b", "c", "d")
    assert [(e.label, e.place) for e in of_kind(events, Appeared)] == [
        ("a", 0), ("b", 1), ("c", 2), ("d", 3)
    ]  # fmt: skip
    assert run.server.model["head.bias"].shape == (4,)
    result = run.result()
    assert (len(result.accuracy), len(result.accuracy[0])) == (2, 3)
    assert result.A > 90
    assert result.anytime_accuracy > 70
    # A class is tested in the task in which it came: 'a' in the first alone.
    last = next(e for e in of_kind(events, Evaluated) if e.task == 2)
    assert [[c for c, _, _ in classes] for classes in last.test] == [[0, 1], [2], [3]]


def test_without_boundaries_burn_in_counts_once_and_replay_excludes_nothing():
    streams = [samples(k, named=False) for k in (0, 1)]
    run = Run(make_settings({**TINY, "burn_in": 20}), streams=streams)
    replayed = []
    for client in run.clients:
        draw = client.learner.memory.draw
        client.learner.memory.draw = lambda n, exclude, times, draw=draw: (
            replayed.append(exclude), draw(n, exclude, times))[1]  # fmt: skip
    events = list(run)
    assert set(replayed) == {None}
    assert {e.task for e in of_kind(events, Learned)} == {0}
    assert run.result().rounds == 8  # after 22, 24, … 36 of 36 mini-batches


def test_with_boundaries_burn_in_counts_in_every_task():
    run = Run(make_settings({**TINY, "burn_in": 6}), streams=[samples(0), samples(1)])
    for _ in run:
        pass
    assert run.result().rounds == 9  # after 8, 10, 12 of 12 in each of three tasks


def test_a_mini_batch_is_tested_before_it_is_learned():
    """By the model in evaluation mode; so what is counted can be computed from outside."""
    images = [(np.random.default_rng(n).integers(0, 255, (8, 8), dtype=np.uint8), n % 3)
              for n in range(40)]  # fmt: skip
    run = Run(make_settings({**TINY, "width": 2, "lr": 0.01}), streams=[images])
    (client,) = run.clients
    expected = []
    learn = client.learner.learn

    def watched(batch, current):
        client.model.eval()
        with torch.no_grad():
            logits = client.model(batch.x)
        loss = torch.nn.functional.cross_entropy(logits, batch.y, reduction="sum").item()
        expected.append((int((logits.argmax(1) == batch.y).sum()), pytest.approx(loss, rel=1e-4)))
        return learn(batch, current)

    client.learner.learn = watched
    events = list(run)
    assert [(e.correct, e.loss) for e in of_kind(events, Learned)] == expected


@pytest.mark.parametrize("named", [True, False])
def test_a_run_that_stops_anywhere_ends_like_one_that_did_not(tmp_path, named):
    made = make_settings({**TINY, "checkpoint_every": 7, "aggregation": "fedprox"})
    streams = [reopened(0, named=named), reopened(1, n=50, named=named)]
    test = list(samples(2, named=False))
    for _ in Run(made, out=tmp_path / "whole", streams=streams, test=test):
        pass
    for stop_after in (1, 13, 30, 52, 80):
        broken = tmp_path / f"stopped after {stop_after}"
        for n, _ in enumerate(Run(made, out=broken, streams=streams, test=test), 1):
            if n == stop_after:
                break  # like a kill: nothing is saved on the way out
        ofcl.resume(broken, streams=streams, test=test)
        for one, other in zip(whole(tmp_path / "whole"), whole(broken), strict=True):
            assert_same(one, other)


def test_iterators_must_be_brought_again(tmp_path):
    run = Run(make_settings(TINY), out=tmp_path / "run", streams=[reopened(0), reopened(1)])
    next(iter(run))
    run.close()
    with pytest.raises(OfclError, match="resume it from Python, with streams"):
        ofcl.resume(tmp_path / "run")


@pytest.mark.parametrize("header", ["v,u,label", "id,u,v,label"])
def test_a_resumed_run_is_tested_by_the_same_columns(tmp_path, folders, monkeypatch, header):
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)
    (tmp_path / "stream").mkdir()
    draw = np.random.default_rng(0)
    rows = [(*draw.normal(3 * (n % 2), 1, 2).round(3), "ab"[n % 2]) for n in range(80)]
    lines = "".join(f"{u},{v - 9},{label}\n" for u, v, label in rows)
    (tmp_path / "stream" / "a.csv").write_text(f"u,v,label\n{lines}")
    test = "".join(
        f"{v - 9},{u},{label}\n" if header[0] == "v" else f"7,{u},{v - 9},{label}\n"
        for u, v, label in rows
    )
    (tmp_path / "test.csv").write_text(f"{header}\n{test}")
    values = {"streams": [f"watch:{tmp_path / 'stream'}"], "test": str(tmp_path / "test.csv"),
              "idle": 0.2, "model": "mlp", "hidden": 8, "window": 10, "batch_size": 4,
              "checkpoint_every": 1, "lr": 0.01}  # fmt: skip
    whole = Run(make_settings(values))
    for _ in whole:
        pass
    for n, _ in enumerate(Run(make_settings(values), out=tmp_path / "run")):
        if n == 6:
            break
    assert ofcl.resume(tmp_path / "run").A == whole.result().A > 80


def test_a_folder_of_images_to_test_on(tmp_path):
    for label, value in (("cat", 0), ("dog", 250)):
        (tmp_path / "in" / label).mkdir(parents=True)
        for n in range(6):
            pixels = np.full((9, 9), value + n % 3, dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "in" / label / f"{n}.png")
    values = {"streams": [f"watch:{tmp_path / 'in'}"], "test": str(tmp_path / "in"), "idle": 0.2,
              "model": "mlp", "hidden": 8, "batch_size": 4}  # fmt: skip
    run = Run(make_settings(values))
    for _ in run:
        pass
    assert run.result().A is not None


def test_parties_with_samples_of_different_form_are_refused():
    other = [(np.ones(3), "a")] * 10
    with pytest.raises(StreamError, match="client 1.*vectors of 3, but so far it was vectors of 6"):
        for _ in Run(make_settings(TINY), streams=[samples(0), other]):
            pass


def test_a_run_can_be_resumed_when_parties_know_different_classes(tmp_path):
    """And a client that missed the round of a class can end its task."""
    made = make_settings({**TINY, "checkpoint_every": 3, "dropout": 0.4, "min_clients": 1})
    streams = [reopened(0, tasks=(("a", "b"), ("c",))), reopened(1, tasks=(("a",), ("b", "d")))]
    for stop_after in (9, 20, 33):
        folder = tmp_path / str(stop_after)
        for _ in Run(made, out=folder / "whole", streams=streams):
            pass
        for n, _ in enumerate(Run(made, out=folder / "broken", streams=streams), 1):
            if n == stop_after:
                break
        ofcl.resume(folder / "broken", streams=streams)
        for one, other in zip(whole(folder / "whole"), whole(folder / "broken"), strict=True):
            assert_same(one, other)


def test_every_event_of_a_broken_run_is_there_and_in_order(tmp_path):
    made = make_settings({**TINY, "checkpoint_every": 1})
    streams = [reopened(0), reopened(1)]
    one = Run(made, out=tmp_path / "whole", streams=streams)
    for _ in one:
        pass
    run = Run(made, out=tmp_path / "broken", streams=streams)
    told = []
    while True:
        for n, event in enumerate(run):
            told.append(event)
            if n == 3:
                run.save()
                break
        else:
            break
        run.close()
        run = Run.resume(tmp_path / "broken", streams=streams)
    assert run.events == one.events
    assert told == one.events


def test_clients_with_different_numbers_of_tasks_all_count():
    streams = [samples(0), samples(1, tasks=(("a", "b"),))]
    run = Run(make_settings(TINY), streams=streams, test=list(samples(2, named=False)))
    for _ in run:
        pass
    result = run.result()
    ends = [result.accuracy[0][2], result.accuracy[1][0]]
    means = [sum(v for v in row if v is not None) / sum(v is not None for v in row) for row in ends]
    assert result.A == pytest.approx(sum(means) / 2)


def test_mistakes_are_told_before_anything_is_waited_for(tmp_path):
    (tmp_path / "empty").mkdir()
    stream = {"streams": [f"watch:{tmp_path / 'empty'}"]}
    for values, problem in (
        ({"method": "foo"}, "unknown method 'foo'"),
        ({"model": "foo"}, "unknown model 'foo'"),
        ({"device": "cuda:9"}, "cuda:9"),
        ({"test": str(tmp_path / "nope.csv")}, "no file or folder .*nope.csv' to test on"),
        ({"dataset": "digits"}, "dataset is for datasets; with --stream"),
        ({"limit": 3}, "limit is for datasets"),
        ({"clients": 3}, "1 streams are 1 clients, not 3"),
    ):
        with pytest.raises(OfclError, match=problem):
            Run(make_settings({**stream, **values}))
    with pytest.raises(OfclError, match="test is for streams; without --stream"):
        make_settings({"test": "x.csv"})
    with pytest.raises(OfclError, match="limit is for datasets"):
        ofcl.run(streams=[samples(0)], limit=3)
    with pytest.raises(OfclError, match="streams is a generator; give a list"):
        Run(make_settings(TINY), streams=samples(0))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x").write_text("")
    with pytest.raises(OfclError, match="exists"):
        Run(make_settings(stream), out=tmp_path / "run")


def test_runs_over_streams_of_older_versions_can_be_read():
    """They say `class_order = "random"`, which `published` has otherwise now."""
    stream = {"streams": ["watch:somewhere"], "protocol": "published"}
    for values in ({}, {"class_order": "random"}, {"class_order": "released"}):
        assert make_settings({**stream, **values}).streams == ("watch:somewhere",)
    with pytest.raises(OfclError, match="class_order is for datasets"):
        make_settings({**stream, "class_order": "size"})


def test_samples_to_test_on_are_checked_at_the_start():
    for test, problem in (
        ([(np.ones(3), "a")], "vectors of 3, but so far it was vectors of 6"),
        ([(np.ones(6), None)], "the label is missing"),
        ([3], "a stream brings"),
    ):
        with pytest.raises(OfclError, match=f"a sample to test on cannot be used: .*{problem}"):
            Run(make_settings(TINY), streams=[samples(0)], test=test)


def test_a_run_that_was_tested_is_resumed_with_its_test(tmp_path):
    streams, test = [reopened(0)], list(samples(2, named=False))
    run = Run(make_settings(TINY), out=tmp_path / "run", streams=streams, test=test)
    for _, _ in zip(range(5), run, strict=False):
        run.save()
    run.close()
    with pytest.raises(OfclError, match="resume it with test="):
        ofcl.resume(tmp_path / "run", streams=streams)


def test_streams_without_a_sample():
    with pytest.raises(OfclError, match="ended before they brought a single sample"):
        Run(make_settings(TINY), streams=[[], []])


def test_a_silent_client_does_not_hold_up_the_others():
    def silent():
        yield from list(samples(2))[:5]
        while True:
            yield None

    made = make_settings({**TINY, "patience": 0.1, "burn_in": 0})
    run = Run(made, streams=[samples(0), samples(1), silent()])
    rounds = []
    for event in run:
        if isinstance(event, Round):
            rounds.append(event.clients)
            if len(rounds) == 4:
                break
    assert rounds == [[0, 1]] * 4


def test_one_class_for_a_long_time_can_be_scored():
    for method in ("ms", "rc", "en"):
        only = [(np.random.default_rng(n).normal(size=4), "a") for n in range(60)]
        result = ofcl.run(streams=[only], **{**TINY, "method": method})
        assert result.anytime_accuracy > 50


def test_more_classes_than_places_in_the_memory():
    many = [(np.random.default_rng(n).normal(size=4), n) for n in range(40)]
    run = Run(make_settings({**TINY, "memory": 6}), streams=[many])
    for _ in run:
        pass
    assert len(run.labels) == 40
    assert len(run.clients[0].learner.memory) == 6


def test_ctrl_c_while_nothing_comes_saves_what_was_learned(tmp_path):
    def quiet():
        yield from samples(0)
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        while True:
            yield None

    run = Run(make_settings(TINY), out=tmp_path / "run", streams=[quiet()])
    with pytest.raises(Interrupted, match="ofcl resume"):
        for _ in run:
            pass
    learned = sum(event.batches for event in of_kind(run.events, Learned))
    assert learned == 36
    more = [samples(5, n=5)]
    result = ofcl.resume(tmp_path / "run", streams=more)
    assert sum(part["samples"] for part in result.anytime) == 195


def test_a_file_to_test_streams_of_python_on(tmp_path):
    rows = [",".join(f"{v:.3f}" for v in x) + f",{label}" for x, label in samples(2, named=False)]
    path = tmp_path / "test.csv"
    path.write_text("a,b,c,d,e,f,label\n" + "\n".join(rows) + "\n")
    values = {**TINY, "label": "label"}
    by_path = ofcl.run(streams=[samples(0), samples(1)], test=path, **values)
    by_hand = ofcl.run(streams=[samples(0), samples(1)], test=list(samples(2, named=False)),
                       **values)  # fmt: skip
    assert by_hand.A > 30
    assert by_path.A == pytest.approx(by_hand.A, abs=2)


# From the shell


def write(folder, name, seed, labels, n=40):
    draw = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        label = labels[i % len(labels)]
        place = "abcd".index(label)
        rows.append(f"{draw.normal(place * 3):.3f},{draw.normal(-place):.3f},{label}\n")
    (folder / f"{name}.part").write_text("u,v,label\n" + "".join(rows))
    (folder / f"{name}.part").rename(folder / f"{name}.csv")


@pytest.fixture
def folders(tmp_path):
    for k, name in enumerate(("one", "two")):
        (tmp_path / name).mkdir()
        for n, labels in enumerate(("ab", "ab", "bc", "dc")):
            write(tmp_path / name, n, 10 * k + n, labels)
    return tmp_path


SHELL = ["--method", "bi", "--memory", "20", "--set", "burn_in=2", "--set", "batch_size=5",
         "--set", "window=20", "--set", "lr=0.02"]  # fmt: skip


def shell(folders, out, *more):
    streams = [f"--stream=watch:{folders / name}" for name in ("one", "two")]
    return ["run", *streams, *SHELL, *more, "--out", out]


@in_one_process
def test_watched_folders(folders):
    code, out, err = command(*shell(folders, folders / "run", "--idle", "0.2",
                                    "--test", folders / "one" / "3.csv"))  # fmt: skip
    assert code == 0, err
    assert "client 0: a new class, 'd'" in err
    result = json.loads((folders / "run" / "result.json").read_text())
    assert result["rounds"] > 5
    assert result["A"] > 60
    assert sum(part["samples"] for part in result["anytime"]) == 320
    settings = (folders / "run" / "settings.toml").read_text()
    assert f'test = "{folders / "one" / "3.csv"}"' in settings


@in_one_process
def test_the_end_of_a_run_says_who_knows_what_and_names_files_that_come_later(folders):
    (folders / "test.csv").write_text("u,v,label\n0,0,a\n3,-1,b\n9,9,never seen\n")
    for name in ("2.csv", "3.csv"):
        (folders / "two" / name).unlink()
    code, _, err = command(*shell(folders, folders / "run", "--idle", "0.2",
                                  "--test", folders / "test.csv"))  # fmt: skip
    assert code == 0, err
    for line in (
        "client 0 has seen 'a', 'b', 'c', 'd'",
        "client 1 has seen 'a', 'b'",
        "test classes that have come to nobody, and are not tested: 'never seen'",
        "watched folders ended after 0.2 s without a new file (--idle)",
    ):
        assert line in err
    code, _, err = command("resume", folders / "run")
    assert "not learned" not in err
    write(folders / "two", "late", 7, "ab")
    code, _, err = command("resume", folders / "run")
    assert code == 0
    assert f"came after the end of '{folders / 'two'}': late.csv. Learn it with: ofcl run" in err


@in_one_process
def test_the_columns_of_test_data_are_found_by_their_names(folders):
    content = (folders / "one" / "3.csv").read_text().splitlines()
    turned = [",".join(line.split(",")[::-1]) for line in content]
    (folders / "turned.csv").write_text("\n".join(turned) + "\n")
    found = []
    for n, name in enumerate(("one/3.csv", "turned.csv")):
        out = folders / f"run {n}"
        command(*shell(folders, out, "--idle", "0.2", "--test", folders / name, "-q"))
        found.append(json.loads((out / "result.json").read_text())["A"])
    assert found[0] == found[1]


@contextlib.contextmanager
def opened(folder, *arguments):
    """A command, and the pipe of which it reads its standard input."""
    path = folder / "pipe"
    os.mkfifo(path)
    process = Command(*arguments, stdin=path)
    with path.open("w") as pipe:
        yield process, pipe
    path.unlink()


def piped(folder, content, *arguments):
    """Gives a command a standard input that ends; exit code, standard output and error."""
    with opened(folder, *arguments) as (process, pipe):
        pipe.write(content)
    return process.wait()


@in_one_process
def test_standard_input(tmp_path):
    rows = [json.dumps({"x": x.tolist(), "y": y}) for x, y in samples(0, named=False)]
    content = "\n".join([*rows[:-1], "{broken", rows[-1]])
    arguments = ["run", "--stream", "-", *SHELL, "--json", "--out", str(tmp_path / "run")]
    code, _, err = piped(tmp_path, content, *arguments)
    assert code == 2
    assert "standard input, line 180: not JSON" in err
    assert "ofcl resume" in err
    assert "Traceback" not in err
    code, out, err = piped(tmp_path, "\n", "resume", tmp_path / "run", "--on-bad",
                           "skip", "--json")  # fmt: skip
    assert code == 0, err
    assert sum(part["samples"] for part in json.loads(out)["anytime"]) == 180
    code, out, err = piped(tmp_path, content, *arguments[:-1], tmp_path / "other", "--on-bad",
                           "skip")  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    assert result["skipped"] == 1
    assert sum(part["samples"] for part in result["anytime"]) == 180


@in_one_process
def test_ctrl_c_on_a_pipe_that_stays_open(tmp_path):
    rows = [json.dumps({"x": x.tolist(), "y": y}) for x, y in samples(0, named=False)]
    arguments = ["run", "--stream", "-", *SHELL, "--out", str(tmp_path / "run")]
    with opened(tmp_path, *arguments) as (process, pipe):
        pipe.write("\n".join(rows[:-2]) + "\n" + rows[-2][:10])
        pipe.flush()
        file = tmp_path / "run" / "events.jsonl"
        while not file.exists() or file.read_text().count('"learned"') < 35:
            assert process.running
            time.sleep(0.02)
        time.sleep(0.3)
        process.send(signal.SIGINT)
        code, _, err = process.wait()
    assert code == 130
    assert err.strip().splitlines()[-1].startswith("stopped; go on with")
    rest = rows[-2][10:] + "\n" + rows[-1] + "\n"
    code, out, err = piped(tmp_path, rest, "resume", tmp_path / "run", "--json")
    assert code == 0, err
    # Half a line and three samples were waiting when it was stopped; all are learned.
    assert sum(part["samples"] for part in json.loads(out)["anytime"]) == 180


def test_a_stream_that_stopped_at_a_bad_file_goes_on_when_it_is_mended(folders, monkeypatch):
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)
    values = {"memory": 20, "burn_in": 2, "batch_size": 5, "window": 20, "idle": 0.05}
    values["on_bad"] = "stop"
    made = make_settings(
        {**values, "streams": [f"watch:{folders / name}" for name in ("one", "two")]}
    )
    for _ in Run(made, out=folders / "whole"):
        pass
    good = (folders / "one" / "2.csv").read_text()
    (folders / "one" / "2.csv").write_text(good.replace("\n", "\n1,x,a\n", 1))
    with pytest.raises(StreamError, match="'2.csv', line 2: column 'v' is not a number"):
        for _ in Run(made, out=folders / "broken"):
            pass
    skipping = Run.resume(folders / "broken", on_bad="skip", tell=lambda line: None)
    assert skipping.settings.on_bad == "skip"
    assert skipping.warnings == []  # "learning begins when …" was said when it began
    skipping.close()
    (folders / "one" / "2.csv").write_text(good)
    ofcl.resume(folders / "broken")
    (result, state), (mended, other) = whole(folders / "whole"), whole(folders / "broken")
    assert result == mended
    assert_same(state["server"], other["server"])
    for one, two in zip(state["engine"]["clients"], other["engine"]["clients"], strict=True):
        assert_same(one["learner"], two["learner"])
        assert one["stream"]["taken"] == two["stream"]["taken"]


@pytest.fixture
def damaged(folders, monkeypatch):
    """Two folders, a bad row in the first one; the settings of a run, and the mended file."""
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)
    values = {"memory": 20, "burn_in": 2, "batch_size": 5, "window": 20, "idle": 0.05,
              "min_clients": 1}  # fmt: skip
    streams = [f"watch:{folders / name}" for name in ("one", "two")]
    good = (folders / "one" / "2.csv").read_text()
    (folders / "one" / "2.csv").write_text(good.replace("\n", "\n1,x,a\n", 1))
    return make_settings({**values, "streams": streams}), good


def learned_by(events):
    return [sum(e.samples for e in of_kind(events, Learned) if e.client == k) for k in (0, 1)]


def test_one_bad_file_does_not_stop_the_other_clients(folders, damaged):
    made, good = damaged
    events = []
    with pytest.raises(StreamError, match="client 0: '2.csv', line 2: .*ofcl resume"):
        for event in Run(made, out=folders / "run"):
            events.append(event)
    (halted,) = of_kind(events, Halted)  # said once
    assert halted.client == 0
    assert "'2.csv', line 2: column 'v' is not a number" in halted.problem
    assert learned_by(events) == [80, 160]  # the other one has learned everything
    (folders / "one" / "2.csv").write_text(good)
    result = ofcl.resume(folders / "run")
    assert sum(part["samples"] for part in result.anytime) == 320


def test_a_bad_file_stops_all_clients_if_asked_to(folders, damaged):
    made, _ = damaged
    events = []
    with pytest.raises(StreamError, match="client 0: '2.csv', line 2"):
        for event in Run(made.model_copy(update={"on_bad": "stop"}), out=folders / "run"):
            events.append(event)
    assert not of_kind(events, Halted)
    assert learned_by(events)[1] < 160


def test_a_client_goes_on_when_its_file_is_mended(folders, damaged):
    made, good = damaged
    events = []
    for event in Run(made, out=folders / "run"):
        events.append(event)
        if isinstance(event, Halted):
            (folders / "one" / "2.csv").write_text(good)
    assert learned_by(events) == [160, 160]


@in_one_process
def test_killed_while_files_arrive(folders):
    """kill -9 of the real process, twice; then it ends like one that was never killed."""
    code, _, err = command(*shell(folders, folders / "whole", "--idle", "0.2", "-q"))
    assert code == 0, err
    arguments = shell(folders, folders / "broken", "--idle", "3", "-q",
                      "--set", "checkpoint_every=5")  # fmt: skip
    file = folders / "broken" / "events.jsonl"
    for wanted in (1500, 5000):
        process = Command(*arguments)
        while not file.exists() or file.stat().st_size < wanted:
            assert process.running
            time.sleep(0.005)
        process.kill()
        arguments = ["resume", folders / "broken", "-q"]
    code, _, err = command(*arguments)
    assert code == 0, err
    first, second = (
        json.loads((folders / name / "result.json").read_text()) for name in ("whole", "broken")
    )
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_what_a_stream_has_to_tell_comes_before_its_mini_batch():
    def readings(seed):
        draw = torch.Generator().manual_seed(seed)
        for n in range(40):
            yield torch.randn(3, generator=draw), f"class {n // 20}"

    run = Run(make_settings({**TINY, "method": "er"}), streams=[readings(0), readings(1)])
    known, seen = 0, 0
    for event in run:
        known += isinstance(event, Appeared)
        if isinstance(event, Learned):
            seen += 1
            assert known >= 1 + (seen > 2 * 20 // TINY["batch_size"])
    assert known == 2
