"""Runs that go on from an earlier one: equal to one run over both parts, and tested on all."""

import hashlib
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.assembly.going_on import read_start
from ofcl.assembly.inheritance import inherited
from ofcl.assembly.start import Start
from ofcl.data.files.embedders import EMBEDDERS
from ofcl.data.live import watched_folder
from ofcl.data.sample_forms import TextForm
from ofcl.events import Evaluated, Learned
from ofcl.storage.checkpoint import load_checkpoint
from ofcl.storage.run_directory import RunDirectory
from tests.conftest import TINY, TINY_IMAGES, make_blobs, make_images
from tests.support.commands import ofcl as command
from tests.test_experiment import assert_same

STREAM = {
    "protocol": "sound", "memory": 12, "burn_in": 2, "q": 2, "hidden": 16, "batch_size": 5,
    "steps": 2, "lr": 0.02,
}  # fmt: skip
TASKS = (("a", "b"), ("c",), ("d", "a"), ("b", "e"))


def stream(seed, tasks=range(4), n=30, side=None):
    """Vectors, or images, around a place that depends on the label, in some of the tasks."""
    for task in tasks:
        draw = np.random.default_rng([seed, task])
        for i in range(n):
            label = TASKS[task][i % len(TASKS[task])]
            x = draw.normal(0, 0.3, size=6)
            x["abcde".index(label)] += 2
            if side is not None:
                x = np.kron(x.clip(0, 2) * 100, np.ones((side, 2)))[None, :, :side].astype(np.uint8)
            yield x, label, f"task {task}"


def all_of(path):
    """The state of every client and of the server when a run has ended; streams have other rows."""
    state = load_checkpoint(path / "checkpoint", print).state
    clients = [dict(client) for client in state["engine"]["clients"]]
    streams = [client.pop("stream") for client in clients]
    forms = [stream.get("form") for stream in streams]
    return {"clients": clients, "server": state["server"], "forms": forms}


def finish(run):
    for _ in run:
        pass
    return run.result()


MEASURED = ("A", "F", "global_A", "global_F", "accuracy", "global_accuracy", "balanced_accuracy")


def assert_equal_runs(one, other):
    """Both ended with the same models, memories, optimisers and generators, and the same tests."""
    assert_same(all_of(one), all_of(other))
    first, second = (RunDirectory(path).result().to_json() for path in (one, other))
    assert {name: first[name] for name in MEASURED} == {name: second[name] for name in MEASURED}


@pytest.mark.parametrize("values", [
    {"method": "bi"},
    {"method": "bi", "protocol": "published"},
    {"method": "cbr", "protocol": "strong", "closing_round": "none", "hidden": 8},
    {"method": "er", "aggregation": "fedprox", "dropout": 0.3, "min_clients": 1},
    {"method": "bi", "dp_clip": 1.0, "aggregation": "weighted", "score_scale": "rank",
     "rescore": "on-arrival"},
    {"method": "none", "participation": 0.5, "min_clients": 1},
], ids=str)  # fmt: skip
def test_a_stream_in_two_runs_is_learned_as_in_one(tmp_path, values):
    made, test = make_settings({**STREAM, **values}), [s[:2] for s in stream(9)]
    both = [list(stream(k)) for k in (0, 1)]
    finish(Run(made, out=tmp_path / "whole", streams=both, test=test))
    today = [list(stream(k, [0, 1])) for k in (0, 1)]
    finish(Run(made, out=tmp_path / "today", streams=today, test=test))
    tomorrow = [list(stream(k, [2, 3])) for k in (0, 1)]
    ofcl.run(streams=tomorrow, test=test, start=tmp_path / "today", out=tmp_path / "tomorrow")
    assert_equal_runs(tmp_path / "whole", tmp_path / "tomorrow")


def test_images_in_two_runs_are_learned_as_in_one(tmp_path):
    made = make_settings({**STREAM, "method": "bi", "width": 2, "model": "slim-resnet18",
                          "augment": "flip-rotate"})  # fmt: skip
    for name, tasks in (("whole", range(3)), ("today", [0])):
        streams = [list(stream(k, tasks, 20, side=8)) for k in (0, 1)]
        finish(Run(made, out=tmp_path / name, streams=streams))
    before = tmp_path / "today"
    for task in (1, 2):  # each day goes on from the day before
        streams = [list(stream(k, [task], 20, side=8)) for k in (0, 1)]
        ofcl.run(streams=streams, start=before, out=tmp_path / str(task))
        before = tmp_path / str(task)
    assert_equal_runs(tmp_path / "whole", before)


def write_rows(path, seed, task):
    """A table of one task; columns of different scales."""
    rows = (f"{x[0]:.4f},{1000 * x[1]:.4f},{x[3] - 50:.4f},{label},{name}\n"
            for x, label, name in stream(seed, [task], 24))  # fmt: skip
    path.write_text("u,v,w,label,day\n" + "".join(rows))


def test_a_watched_folder_goes_on_behind_what_was_learned(tmp_path, monkeypatch):
    """And its columns are standardised as before."""
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)
    values = {"task": "day", "idle": 0.3, "window": 10, "model": "mlp", "method": "bi", **STREAM}

    def folders(name):
        found = [tmp_path / f"{name}-{k}" for k in (0, 1)]
        for folder in found:
            folder.mkdir(exist_ok=True)
        return found, {"streams": [f"watch:{folder}" for folder in found]}

    both, named = folders("both")
    for k, folder in enumerate(both):
        for task in range(2):
            write_rows(folder / f"{task}.csv", k, task)
    finish(Run(make_settings({**values, **named}), out=tmp_path / "whole"))

    folder_of_each, named = folders("daily")
    for k, folder in enumerate(folder_of_each):
        write_rows(folder / "0.csv", k, 0)
    finish(Run(make_settings({**values, **named}), out=tmp_path / "today"))
    for k, folder in enumerate(folder_of_each):
        write_rows(folder / "1.csv", k, 1)
    start = read_start(tmp_path / "today")
    made = make_settings(inherited(start, "streams"), named)
    assert made.task == "day"
    finish(Run(made, out=tmp_path / "tomorrow", start=start))
    assert_same(all_of(tmp_path / "whole"), all_of(tmp_path / "tomorrow"))


def save(path, dataset, classes):
    """Writes the samples of some classes to a file of arrays."""
    parts = {}
    for part in ("train", "test"):
        x, y = getattr(dataset, f"x_{part}"), getattr(dataset, f"y_{part}")
        rows = torch.isin(y, torch.tensor(classes))
        parts |= {f"x_{part}": x[rows].numpy(), f"y_{part}": y[rows].numpy()}
    np.savez(path, **parts)
    return str(path)


@pytest.fixture
def days(tmp_path):
    """Three files with classes of their own; the second has one of the first file too."""
    blobs = make_blobs(classes=7)
    classes = {"monday": [0, 1, 2], "tuesday": [2, 3, 4], "wednesday": [5, 6]}
    return {day: save(tmp_path / f"{day}.npz", blobs, of_day) for day, of_day in classes.items()}


DATASET = {**TINY, "tasks": 1, "method": "bi", "closing_round": "task", "seed": 3}


def test_datasets_in_two_runs_are_learned_as_in_one(tmp_path, days):
    """Where both runs go on from the same one, so that heads have grown as far in both."""
    blobs = make_blobs(classes=7)
    ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    # By size: classes of the same size come in the order of their places.
    how = {"start": tmp_path / "monday", "class_order": "size"}
    both = save(tmp_path / "both.npz", blobs, [3, 4, 5, 6])
    ofcl.run(both, out=tmp_path / "whole", tasks=2, **how)
    first = save(tmp_path / "first.npz", blobs, [3, 4])
    ofcl.run(first, out=tmp_path / "first", **how)
    second = save(tmp_path / "second.npz", blobs, [5, 6])
    ofcl.run(second, out=tmp_path / "second", start=tmp_path / "first")
    assert_equal_runs(tmp_path / "whole", tmp_path / "second")


def test_what_was_learned_before_is_tested_too(tmp_path, days):
    first = ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    ofcl.run(days["tuesday"], out=tmp_path / "tuesday", start=tmp_path / "monday", tasks=3)
    result = ofcl.run(days["wednesday"], out=tmp_path / "wednesday", start=tmp_path / "tuesday")
    run = RunDirectory(tmp_path / "wednesday")
    assert run.description()["labels"] == list("0123456")
    assert run.earlier_tasks() == 4
    last = result.accuracy[0]
    assert [sum(value is not None for value in row) for row in last] == [1, 2, 3, 4, 5]
    assert last[0] == [first.accuracy[0][0][0], None, None, None, None]
    assert result.A > 70  # by chance: 14
    # The samples of a class that came twice are tested in both of its tasks.
    events = run.events()
    of_last = next(e for e in reversed(events) if e["event"] == "evaluated")
    assert sorted(c for hits in of_last["test"] for c, _, _ in hits) == [0, 1, 2, 2, 3, 4, 5, 6]
    learned = [e for e in events if e["event"] == "learned"]
    assert {event["task"] for event in learned} == {4}


@pytest.mark.parametrize("loss", ["gone", "changed"])
def test_data_that_are_not_at_hand_are_not_tested(tmp_path, days, loss):
    ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    if loss == "gone":
        (tmp_path / "monday.npz").unlink()
    else:
        save(tmp_path / "monday.npz", make_blobs(classes=7, seed=5), [0, 1, 2])
    with pytest.warns(UserWarning, match="learned before is not tested.*monday.npz"):
        result = ofcl.run(days["tuesday"], out=tmp_path / "tuesday", start=tmp_path / "monday")
    assert result.accuracy[0][0] == [None, None]
    assert result.accuracy[0][1][0] is None
    assert result.A == pytest.approx(np.mean([matrix[1][1] for matrix in result.accuracy]))
    # Nor in the run after it, but what can be tested is.
    with pytest.warns(UserWarning, match="learned before is not tested"):
        result = ofcl.run(days["wednesday"], start=tmp_path / "tuesday")
    assert [value is None for value in result.accuracy[0][2]] == [True, False, False]


@pytest.mark.parametrize("kind", ["dataset", "streams"])
def test_a_run_that_goes_on_and_is_killed_needs_the_earlier_one_no_more(tmp_path, days, kind):
    if kind == "dataset":
        data, before = {"dataset": days["tuesday"]}, {"dataset": days["monday"]}
        ofcl.run(**before, out=tmp_path / "today", **DATASET)
        again = {}
    else:
        before = {"streams": [list(stream(k, [0, 1])) for k in (0, 1)]}
        data = again = {"streams": [list(stream(k, [2, 3])) for k in (0, 1)]}
        ofcl.run(**before, out=tmp_path / "today", method="bi", **STREAM)
    how = {"start": tmp_path / "today", "checkpoint_every": 3}
    ofcl.run(**data, out=tmp_path / "whole", **how)
    start = read_start(tmp_path / "today")
    given = {"checkpoint_every": 3, **({"dataset": days["tuesday"]} if kind == "dataset" else {})}
    layer = inherited(start, "dataset" if kind == "dataset" else "iterators")
    for stop_after in (0, 1, 5, 9):
        broken = tmp_path / str(stop_after)
        run = Run(make_settings(layer, given), out=broken, start=start, **again)
        for n, _ in enumerate(run):
            if n == stop_after:
                break  # like a kill: nothing is saved on the way out
        run.close()
    shutil.rmtree(tmp_path / "today")
    for stop_after in (0, 1, 5, 9):
        ofcl.resume(tmp_path / str(stop_after), **again)
        assert_equal_runs(tmp_path / "whole", tmp_path / str(stop_after))


def test_a_resumed_run_must_have_what_it_tests(tmp_path, days):
    ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    start = read_start(tmp_path / "monday")
    made = make_settings(inherited(start, "dataset"), {"dataset": days["tuesday"]})
    run = Run(made, out=tmp_path / "tuesday", start=start)
    next(iter(run))
    run.close()
    (tmp_path / "monday.npz").unlink()
    with pytest.raises(OfclError, match="this run tests what was learned before, but .*monday.npz"):
        ofcl.resume(tmp_path / "tuesday")


def digests(folder):
    return {path: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file()}  # fmt: skip


def test_texts_must_be_embedded_by_the_same_model(tmp_path):
    """It is told before anything is embedded, which takes long."""
    form = TextForm(EMBEDDERS["e5-small-v2"], 384)
    start = Start("a model", "", {}, ("a", "b"), form)
    table = write_table(tmp_path / "texts.csv", [{"text": "a word", "label": "a"}])
    made = make_settings({"dataset": table, "embedder": "all-mpnet-base-v2"})
    with pytest.raises(OfclError, match="learned texts by 'intfloat/e5-small-v2'; give this one"):
        Run(made, start=start)


def test_the_earlier_run_is_never_changed(tmp_path, days):
    ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    before = digests(tmp_path / "monday")
    ofcl.run(days["tuesday"], out=tmp_path / "tuesday", start=tmp_path / "monday")
    assert digests(tmp_path / "monday") == before


def test_a_run_that_was_stopped_can_be_gone_on_from(tmp_path):
    """The task in which it was stopped counts as ended; its samples are remembered."""
    blobs = make_blobs()
    run = Run(make_settings({**TINY, "method": "cbr"}), blobs, tmp_path / "stopped")
    for event in run:
        if isinstance(event, Learned) and event.task == 1:
            run.save()
            break
    run.close()
    more = replace(blobs, name="more", labels=tuple("uvwxyz"))
    with pytest.warns(UserWarning, match="learned before is not tested"):  # it was made in Python
        result = ofcl.run(more, start=tmp_path / "stopped", out=tmp_path / "next", tasks=2)
    assert [len(matrix) for matrix in result.accuracy] == [4, 4]
    assert RunDirectory(tmp_path / "next").description()["labels"] == [*blobs.labels, *"uvwxyz"]
    kept = all_of(tmp_path / "next")["clients"][0]["learner"]["memory"]["samples"]
    assert set(kept["task"].tolist()) <= {0, 1, 2, 3}
    assert set(kept["task"].tolist()) & {0, 1}
    assert len(set(kept["id"].tolist())) == 12


@pytest.mark.parametrize("kind", ["vector", "image"])
def test_a_model_alone_is_a_start_too(tmp_path, kind):
    """Without memories every setting but those of the network may change."""
    data, tiny = (make_blobs(), TINY) if kind == "vector" else (make_images(), TINY_IMAGES)
    ofcl.run(data, out=tmp_path / "run", **{**tiny, "method": "er"})
    shutil.copytree(tmp_path / "run" / "model", tmp_path / "model")
    start, expected = read_start(tmp_path / "model"), read_start(tmp_path / "run").model
    values = {"method": "bi", "distil": 1.0, "aggregation": "fedprox", "clients": 3,
              "dp_clip": 9.0, "dp_noise": 0.0, "dataset": data.name}  # fmt: skip
    run = Run(
        make_settings(inherited(start, "dataset"), values), data, tmp_path / "on", start=start
    )
    for client in run.clients:
        learner = client.learner
        of_client = (client.model, learner.distillation.teacher, learner.memory.policy.scorer.model)
        for model in of_client:
            for name, value in expected.items():
                assert torch.equal(model.state_dict()[name], value)
    assert all(torch.equal(run.server.model[name], value) for name, value in expected.items())
    next(iter(run))
    run.close()
    shutil.rmtree(tmp_path / "model")
    assert ofcl.resume(tmp_path / "on", dataset=data).rounds > 0
    # What was learned so is a run like any other.
    more = replace(data, labels=tuple(f"new {label}" for label in data.labels))
    with pytest.warns(UserWarning, match="not tested"):
        result = ofcl.run(more, start=tmp_path / "on")
    assert len(result.accuracy[0]) == 2


def test_images_keep_the_scale_that_the_model_has_learned(tmp_path):
    """In a dataset, and in streams, which have another scale when they begin anew."""
    images = make_images()
    ofcl.run(images, out=tmp_path / "run", **{**TINY_IMAGES, "method": "er"})
    start = read_start(tmp_path / "run")
    bright = replace(images, mean=(0.9,), std=(0.1,))
    made = make_settings(inherited(start, "dataset"), {"dataset": "images"})
    (batch, _) = Run(made, bright, start=start).clients[0].take()
    assert batch.x.min() >= (0 - 0.3) / 0.25
    pairs = zip(images.x_train.numpy(), images.y_train.tolist(), strict=True)
    shown = [(x, f"place {y}") for x, y in pairs]
    run = Run(make_settings(inherited(start, "iterators")), streams=[shown, shown], start=start)
    (batch, _) = run.clients[0].take()
    assert torch.equal(batch.x, images.prepare(images.x_train[:5]))


def write_table(path, rows):
    """Rows as dictionaries; the columns are in the order of the first."""
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


TOMORROW = [{"more": 7, "label": "c", "v": 3000.0 + n, "u": 3.0} for n in range(20)]
"""Columns in another order, one more, and a single class, a new one."""


@pytest.fixture
def table_run(tmp_path):
    """A run over a table of two columns with different scales; gives the form of its rows."""
    draw = np.random.default_rng(0)
    rows = [{"u": round(float(u), 3), "v": round(float(1000 * v), 3), "label": "ab"[n % 2]}
            for n, (u, v) in enumerate(draw.normal(0, 1, (40, 2)))]  # fmt: skip
    table = write_table(tmp_path / "today.csv", rows)
    ofcl.run(table, out=tmp_path / "today", **{**DATASET, "tasks": 2, "burn_in": 0})
    return ofcl.load_dataset(table).form


@pytest.mark.parametrize("at_hand", [True, False])
def test_tables_keep_their_columns_and_their_scale(tmp_path, table_run, at_hand):
    if not at_hand:
        (tmp_path / "today.csv").unlink()
    tomorrow = write_table(tmp_path / "tomorrow.csv", TOMORROW)
    start = read_start(tmp_path / "today")
    assert start.form == table_run
    made = make_settings(inherited(start, "dataset"), {"dataset": tomorrow})
    run = Run(made, out=tmp_path / "tomorrow", start=start)
    assert bool(run.warnings) != at_hand
    (batch, _) = run.clients[0].take()
    run.close()
    (u, v), (u_scale, v_scale) = table_run.mean, table_run.scale
    assert batch.x[:, 0].tolist() == pytest.approx([(3 - u) / u_scale] * 5)
    assert ((batch.x[:, 1] * v_scale + v - 3000).round() < 20).all()
    assert batch.y.tolist() == [2] * 5
    result = ofcl.resume(tmp_path / "tomorrow")
    assert (result.accuracy[0][2][0] is not None) == at_hand
    assert ofcl.load(tmp_path / "tomorrow").predict({"u": 3.0, "v": 3000.0, "more": 1}) == "c"
    less = write_table(tmp_path / "less.csv", [{"u": 1.0, "label": "a"}, {"u": 2.0, "label": "b"}])
    with pytest.raises(OfclError, match="no column 'v'"):
        ofcl.run(less, start=start)


def test_categories_and_gaps_keep_their_places(tmp_path):
    rows = [{"size": n / 4 if n % 5 else "", "colour": ("red", "blue")[n % 2], "label": "ab"[n % 2]}
            for n in range(40)]  # fmt: skip
    today = write_table(tmp_path / "today.csv", rows)
    ofcl.run(today, out=tmp_path / "today", **{**DATASET, "tasks": 2, "burn_in": 0})
    rows = [{"size": 100.0 + n, "colour": ("green", "red")[n % 2], "label": "c"} for n in range(20)]
    tomorrow = write_table(tmp_path / "tomorrow.csv", rows)
    start = read_start(tmp_path / "today")
    made = make_settings(inherited(start, "dataset"), {"dataset": tomorrow})
    (batch, _) = Run(made, start=start).clients[0].take()
    # The number, its mark of a gap, then blue, red and all other colours.
    assert batch.x.shape[1] == 5
    assert (batch.x[:, 0] > 10).all()
    assert (batch.x[:, 1:3] == 0).all()
    assert (batch.x[:, 3] + batch.x[:, 4] == 1).all()
    # A folder of tables goes on by the same codes; vectors from Python do not fit.
    for ward in ("ward-0", "ward-1"):
        (tmp_path / ward).mkdir()
        write_table(tmp_path / ward / "1.csv", rows)
    folders = tuple(f"watch:{tmp_path / ward}" for ward in ("ward-0", "ward-1"))
    made = make_settings(inherited(start, "streams"), {"streams": folders, "idle": 0.1})
    live = Run(made, start=start).clients[0].stream
    assert live.ready()
    x = next(live).x
    assert x.shape == (made.batch_size, 5)
    assert (x[:, 0] > 10).all()
    assert (x[:, 3] + x[:, 4] == 1).all()
    with pytest.raises(OfclError, match="no row; expected one with the columns size, colour"):
        ofcl.run(streams=[stream(0), stream(1)], start=start)


def test_streams_of_rows_keep_the_columns_and_the_scale_of_a_table(tmp_path, table_run):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        write_table(folder / "tomorrow.csv", TOMORROW)
    start = read_start(tmp_path / "today")
    given = {"streams": [f"watch:{folder}" for folder in folders], "idle": 0.1}
    run = Run(make_settings(inherited(start, "streams"), given), start=start)
    stream = run.clients[0].stream
    while not stream.ready():
        time.sleep(0.05)
    mean, scale = table_run.mean[0], table_run.scale[0]
    assert next(stream).x[:, 0].tolist() == pytest.approx([(3 - mean) / scale] * 5)


@pytest.mark.parametrize(("values", "problem"), [
    ({"hidden": 32}, "hidden = 32, but '.*' has 16"),
    ({"method": "er"}, "method = 'er', but '.*' has 'bi' .* memories and optimisers"),
    ({"protocol": "strong"}, "protocol = 'strong', but"),
    ({"clients": 3}, "memories of 2 clients, and the new run has 3"),
    ({"memory": 6}, "memory = 6, but .* up to 12 samples each; a memory can only grow"),
    ({"aggregation": "fedprox"}, "aggregation = 'fedprox', but"),
    ({"distil": 1.0}, "distil = 1.0, but"),
    ({"optimizer": "sgd"}, "optimizer = 'sgd', but"),
    ({"joint": True}, "joint is a bound"),
    ({"engine": "flower-sim"}, "start is for engine = 'local'"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(tmp_path, days, values, problem):
    ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    with pytest.raises(OfclError, match=problem):
        ofcl.run(days["tuesday"], start=tmp_path / "monday", **values)


def test_samples_of_another_form_are_refused(tmp_path, days):
    ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    wide = save(tmp_path / "wide.npz", make_blobs(features=9), [0, 1])
    with pytest.raises(OfclError, match="wide' has vectors of 9 numbers, but .* has learned vect"):
        ofcl.run(wide, start=tmp_path / "monday")
    with pytest.raises(OfclError, match="grey images of 8 × 8 pixels, but .* has learned vectors"):
        ofcl.run(make_images(), start=tmp_path / "monday", model="mlp")
    with pytest.raises(OfclError, match="memories of 2 clients, and the new run has 1"):
        ofcl.run(streams=[stream(0)], start=tmp_path / "monday")


@pytest.mark.parametrize(("values", "problem"), [
    ({"joint": True}, "learned all tasks at once"),
    ({"method": "mfcl"}, "whose generator has all classes from the start"),
])  # fmt: skip
def test_runs_that_cannot_be_gone_on_from_are_refused(tmp_path, values, problem):
    tiny = {**TINY_IMAGES, "generator_steps": 1, "synthetic": 2, "limit": 1, "width": 1}
    run = Run(make_settings({**tiny, **values}), make_images(side=16), tmp_path / "run")
    run.close()
    with pytest.raises(OfclError, match=problem):
        read_start(tmp_path / "run")


def test_a_start_must_have_learned_something(tmp_path, days):
    (tmp_path / "empty").mkdir()
    with pytest.raises(OfclError, match="empty' is not a run directory"):
        ofcl.run(days["tuesday"], start=tmp_path / "empty")
    Run(make_settings(DATASET), make_blobs(), tmp_path / "new").close()
    with pytest.raises(OfclError, match="new' has no checkpoint: nothing was learned"):
        ofcl.run(days["tuesday"], start=tmp_path / "new")


@pytest.mark.parametrize("name", ["bi", "fedprox-private"])
def test_runs_of_an_earlier_version_can_be_gone_on_from(tmp_path, name):
    shutil.copytree(Path(__file__).parent.parent / "stored" / name, tmp_path / name)
    how = {"limit": 2, "class_order": "size", "closing_round": "task"}
    result = ofcl.run("digits", start=tmp_path / name, **how)
    assert result.rounds > 0
    assert [value is None for value in result.accuracy[0][1]] == [False, False]


def test_the_command_line_goes_on(tmp_path, days):
    ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    code, out, err = command(
        "run", "--from", "monday", "--dataset", "tuesday.npz", "--out", "tuesday", cwd=tmp_path
    )
    assert code == 0, err
    assert "task 2/2 ended" in err
    assert "task 1/2" not in err
    result = RunDirectory(tmp_path / "tuesday").result()
    assert f"{result.A:.2f}" in out
    description = RunDirectory(tmp_path / "tuesday").description()
    assert description["start"] == "monday"
    assert description["went_on"] == {"model": read_start(tmp_path / "monday").digest, "tasks": 1}
    # Its settings file runs it again.
    code, _, err = command("run", "tuesday/settings.toml", "--out", "again", "-q", cwd=tmp_path)
    assert code == 0, err
    assert_equal_runs(tmp_path / "tuesday", tmp_path / "again")
    code, _, err = command("run", "--from", "nowhere", "--dataset", "digits", cwd=tmp_path)
    assert (code, "'nowhere' is not a run directory" in err) == (2, True)


def test_events_of_an_earlier_run_come_first(tmp_path, days):
    ofcl.run(days["monday"], out=tmp_path / "monday", **DATASET)
    run = Run(
        make_settings(inherited(read_start(tmp_path / "monday"), "dataset"),
                      {"dataset": days["tuesday"]}),
        start=tmp_path / "monday",
    )  # fmt: skip
    events = list(run)
    tests = [n for n, event in enumerate(events) if isinstance(event, Evaluated)]
    assert tests[:2] == [0, 1]
    assert [events[n].task for n in tests] == [0, 0, 1, 1]
