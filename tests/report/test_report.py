"""The report: what it says is what the runs have; in a browser too, where there is one."""

import base64
import io
import itertools
import json
import re
import shutil
import threading
import types
import urllib.error
import urllib.request
import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import ofcl
from ofcl import Memory, OfclError, Policy, Run, make_settings
from ofcl.cli.main import app
from ofcl.data.loading import load_dataset
from ofcl.evaluation import metrics
from ofcl.events import Evaluated, Remembered
from ofcl.report import figures, series
from ofcl.report.follow import Follower, serve
from ofcl.report.memory_samples import view_memories
from ofcl.report.page import as_html, make_report, save_figures
from ofcl.report.recorded_runs import read_experiments
from ofcl.report.side_by_side import forgetting_against_er
from ofcl.settings import files as settings_files
from ofcl.storage.checkpoint import load_checkpoint, rewrite
from ofcl.storage.run_directory import RunDirectory
from tests.conftest import TINY, TINY_IMAGES

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once

METHODS = ("none", "er", "cbr", "bi")
SECTIONS = ("accuracy", "memory", "communication", "made")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's four runs, with shorter streams and smaller memories."""
    folder = tmp_path_factory.mktemp("demo")
    shorter = {"limit": 6, "burn_in": 2, "q": 2, "memory": 30, "clients": 3}
    data = load_dataset(settings_files.preset("demo")["dataset"])
    for method in METHODS:
        made = make_settings(settings_files.preset("demo"), {**shorter, "method": method})
        for _ in Run(made, data, folder / method):
            pass
    return folder


def result_of(path):
    return json.loads((path / "result.json").read_text())


# What is drawn


def learned(client, task, correct, samples=10, batches=1):
    return {"event": "learned", "client": client, "task": task, "batches": batches,
            "correct": correct, "samples": samples}  # fmt: skip


def test_accuracy_along_the_stream_is_of_all_clients():
    events = [learned(0, 0, 10), learned(1, 0, 0), learned(0, 1, 5), learned(1, 1, 5)]
    line = series.along_stream(events)
    assert line.x == [0.5, 1.5]
    assert line.y == [50.0, 50.0]
    assert series.along_stream(events, points=1).y == [50.0]
    assert series.along_stream([]).x == []
    assert series.task_starts(events) == [1]


def test_what_memories_hold_is_added_over_clients():
    def told(client, batches, held):
        return {"client": client, "batches": batches, "held": held}

    events = [
        told(0, 10, [[0, 3, 5]]),
        told(1, 12, [[0, 4, 2]]),
        told(0, 20, [[0, 3, 2], [1, 4, 3]]),
    ]
    by_task = series.composition(events, "task")
    assert by_task.batches == [10, 12, 20]
    assert by_task.counts == {0: [5, 7, 4], 1: [0, 0, 3]}
    assert series.composition(events, "class").counts == {3: [5, 5, 2], 4: [0, 2, 5]}


def test_accuracy_and_forgetting_of_a_run_that_goes_on():
    matrix = [[90.0, None, None], [40.0, 80.0, None], [None, None, None]]
    first, second, third = series.accuracy_over_time(matrix)
    assert (first.x, first.y) == ([1.0, 2.0], [90.0, 40.0])
    assert (second.x, third.x) == ([2.0], [])
    assert series.forgetting_by_task([matrix]) == [50.0]
    other = [[60.0, None, None], [None, None, None], [None, None, None]]  # it is behind
    assert series.forgetting_by_task([matrix, other]) == [50.0]
    assert series.forgetting_by_task([[[None]]]) == []


def test_forgetting_of_tasks_is_on_average_that_of_the_run(demo):
    for method in METHODS:
        result = result_of(demo / method)
        falls = series.forgetting_by_task(result["accuracy"])
        assert sum(falls) / len(falls) == pytest.approx(result["F"])


def test_megabytes_add_up():
    rounds = [{"seconds": s, "bytes_sent": 2e6, "bytes_received": 1e6} for s in (1.0, 2.0)]
    sent, received = series.communication(rounds)
    assert (sent.x, sent.y) == ([1.0, 2.0], [2.0, 4.0])
    assert received.y == [1.0, 2.0]
    handed = {"seconds": 1.5, "bytes_received": 3e6}  # when a task ends
    sent, received = series.communication([*rounds, handed])
    assert (received.x, received.y) == ([1.0, 1.5, 2.0], [1.0, 4.0, 5.0])
    assert sent.y == [2.0, 2.0, 4.0]


def test_forgetting_against_er(demo):
    experiments = {e.name: e for e in read_experiments([demo])}
    assert set(experiments) == set(METHODS)
    F = {name: result_of(demo / name)["F"] for name in METHODS}
    found = forgetting_against_er(experiments["none"], list(experiments.values()))
    assert found == pytest.approx(100 * (F["er"] - F["none"]) / F["er"])
    assert forgetting_against_er(experiments["er"], list(experiments.values())) is None


def test_forgetting_is_compared_with_an_er_that_differs_in_the_method_alone(tmp_path, blobs):
    for clients, tasks in ((2, 3), (3, 2)):
        for method in ("er", "cbr"):
            out = tmp_path / f"{method}-{clients}"
            ofcl.run(blobs, out=out, **{**TINY, "method": method, "clients": clients,
                                        "tasks": tasks})  # fmt: skip
    experiments = read_experiments([tmp_path])
    F = {path.name: result_of(path)["F"] for path in tmp_path.iterdir()}
    for experiment in experiments:
        made = experiment.runs[0].settings
        found = forgetting_against_er(experiment, experiments)
        er, own = F[f"er-{made.clients}"], F[f"{made.method}-{made.clients}"]
        wanted = 100 * (er - own) / er if made.method == "cbr" and er > 0 else None
        assert found == (wanted if wanted is None else pytest.approx(wanted))


# What memories hold


def decoded(uri):
    with Image.open(
        io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))
    ) as image:
        return np.array(image)


def pixels_of(path, client):
    """The images in a client's memory as they came, by the number of their arrival."""
    state = load_checkpoint(path / "checkpoint", print).state["engine"]["clients"][client]
    memory, form = state["learner"]["memory"], RunDirectory(path).description()["form"]
    mean, std = (torch.tensor(form[name]).view(-1, 1, 1) for name in ("mean", "std"))
    images = ((memory["x"] * std + mean) * 255).round().byte().numpy()
    return dict(zip(memory["samples"]["id"].tolist(), images[:, 0], strict=True))


def test_pictures_are_those_of_the_memory_and_of_the_data(demo):
    (experiment,) = read_experiments([demo / "bi"])
    train = {image.numpy().tobytes() for image in load_dataset("fashion-mini").x_train[:, 0]}
    memories = view_memories(experiment.runs[0], most=12)
    assert len(memories) == 3
    for memory in memories:
        pixels = pixels_of(demo / "bi", memory.client)
        assert memory.size == len(pixels) == 30
        assert len(memory.samples) == 12
        assert len({sample.label for sample in memory.samples}) >= 5  # some of every class
        for sample in memory.samples:
            assert np.array_equal(decoded(sample.picture), pixels[sample.number])
            assert decoded(sample.picture).tobytes() in train
            assert sample.uncertainty >= 0
            assert sample.age >= 0
        assert min(memory.kept) >= 0
        assert len(memory.dropped) > 0


def test_age_task_and_uncertainty_are_those_of_the_sample(demo):
    (experiment,) = read_experiments([demo / "bi"])
    for memory in view_memories(experiment.runs[0], most=1000):
        state = load_checkpoint(demo / "bi" / "checkpoint", print).state["engine"]["clients"]
        held = state[memory.client]["learner"]["memory"]
        table = held["samples"]
        known = {n: (t, k, y) for n, t, k, y in zip(*(table[c].tolist() for c in (
            "id", "task", "key", "y")), strict=True)}  # fmt: skip
        labels = load_dataset("fashion-mini").labels
        assert len(memory.samples) == len(known)
        for sample in memory.samples:
            task, key, y = known[sample.number]
            assert (sample.task, sample.label) == (task, labels[y])
            assert sample.uncertainty == pytest.approx(key)
            assert sample.age == held["arrived"] - 1 - sample.number
        assert held["arrived"] == 6 * 10 * 5  # mini-batches, samples, tasks
        assert len({sample.uncertainty for sample in memory.samples}) > 10


def test_what_memories_hold_at_the_end_is_what_was_told_last(demo):
    (experiment,) = read_experiments([demo / "cbr"])
    run = experiment.runs[0]
    last = {event["client"]: event for event in run.events_of("remembered")}
    assert len(run.events_of("remembered")) == 3 * 5  # at the end of each task
    for memory in view_memories(run, most=1000):
        counted = Counter((s.task, run.labels.index(s.label)) for s in memory.samples)
        told = {(task, c): n for task, c, n in last[memory.client]["held"]}
        assert told == counted
        assert last[memory.client]["batches"] == 6 * 5
    part = make_report([demo / "cbr"]).experiments[0].runs[0]
    numbers = {drawn.name: drawn.numbers for drawn in part.memory}
    tasks = [f"task {t}" for t in range(1, 6)]
    assert numbers["memory-by-task"].columns == ["mini-batches", *tasks]
    assert numbers["memory-by-class"].columns == ["mini-batches", *run.labels]
    for name in ("memory-by-task", "memory-by-class"):
        assert sum(map(float, numbers[name].rows[-1][1:])) == 3 * 30


def test_a_resumed_run_tells_the_same_of_its_memories(tmp_path, blobs, monkeypatch):
    monkeypatch.setattr("ofcl.client.BATCHES_BETWEEN_COUNTS", 3)
    made = make_settings({**TINY, "method": "bi", "checkpoint_every": 1})
    whole = Run(made, blobs)
    events = list(whole)
    assert sum(isinstance(event, Remembered) for event in events) > 2 * 3 * 2
    for n, _ in enumerate(Run(made, blobs, tmp_path / "run")):
        if n == 45:
            break
    resumed = Run.resume(tmp_path / "run", blobs)
    list(resumed)
    assert resumed.events == events
    for one, other in zip(whole.clients, resumed.clients, strict=True):
        kept = [client.learner.memory.state()["dropped"] for client in (one, other)]
        assert len(kept[0]) > 20
        assert torch.equal(*kept)


def test_of_those_that_went_the_newest_are_known(monkeypatch):
    monkeypatch.setattr("ofcl.memory.memory.DROPPED", 4)
    scorer = types.SimpleNamespace(frozen=True, state=dict)
    memory = Memory(2, Policy(lambda x: x[:, 0], scorer=scorer), torch.Generator())
    for start in (10, 20, 30):
        x = torch.arange(start, start + 3, dtype=torch.float).view(3, 1)
        memory.update(x, torch.zeros(3, dtype=torch.long), task=0)
    assert sorted(memory.samples.key.tolist()) == [10, 11]
    assert sorted(memory.state()["dropped"].tolist()) == [22, 30, 31, 32]
    assert memory.class_counts() == [[0, 0, 2]]


@pytest.mark.parametrize("keep", ["bottom", "top"])
def test_uncertainty_is_what_the_policy_sorts_by(tmp_path, images, keep):
    ofcl.run(images, out=tmp_path / "run", method="bi", keep=keep, **TINY_IMAGES)
    (experiment,) = read_experiments([tmp_path])
    for memory in view_memories(experiment.runs[0], most=100):
        assert all(value >= 0 for value in memory.kept + memory.dropped)
        kept, dropped = np.median(memory.kept), np.median(memory.dropped)
        assert (kept < dropped) == (keep == "bottom")


def test_vectors_show_their_first_numbers(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", method="er", **TINY)
    (experiment,) = read_experiments([tmp_path])
    sample = view_memories(experiment.runs[0], most=100)[0].samples[0]
    assert len(sample.text.split()) == 8
    assert sample.uncertainty is None


def test_texts_are_found_by_their_number(tmp_path, monkeypatch):
    def encode(texts):  # a text's vector says which it is
        return np.array([[float(text.split()[-1]), "cats" in text] for text in texts], np.float32)

    monkeypatch.setattr("ofcl.data.files.embeddings.load_encoder", lambda embedder: encode)
    rows = [f"something about {'cats' if n % 2 else 'dogs'} {n},{'cats' if n % 2 else 'dogs'}"
            for n in range(80)]  # fmt: skip
    (tmp_path / "texts.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    monkeypatch.setenv("OFCL_DATA", str(tmp_path / "data"))
    values = {"dataset": str(tmp_path / "texts.csv"), "text": "text", "label": "label", "tasks": 2,
              "clients": 2, "memory": 8, "burn_in": 1, "method": "cbr", "limit": 2,
              "batch_size": 5, "embedder": "minilm"}  # fmt: skip
    ofcl.run(out=tmp_path / "run", **values)
    (experiment,) = read_experiments([tmp_path / "run"])
    for memory in view_memories(experiment.runs[0], most=100):
        state = load_checkpoint(tmp_path / "run" / "checkpoint", print).state["engine"]["clients"]
        held = state[memory.client]["learner"]["memory"]
        numbers = dict(zip(held["samples"]["id"].tolist(), held["x"][:, 0].tolist(), strict=True))
        for sample in memory.samples:
            assert sample.text == f"something about {sample.label} {numbers[sample.number]:.0f}"
    # When the file has changed, or is gone, numbers are shown instead of others' texts.
    for changed in (rows[3:] + rows[:2], rows[:30]):
        (tmp_path / "texts.csv").write_text("text,label\n" + "\n".join(changed) + "\n")
        samples = view_memories(experiment.runs[0], most=100)[0].samples
        assert not any("about" in sample.text for sample in samples)
    (tmp_path / "texts.csv").unlink()
    assert view_memories(experiment.runs[0], most=1)[0].samples[0].text


# The page


def values_of(html):
    return [float(value) for value in re.findall(r'data-value="([^"]+)"', html)]


def numbers_in(matrices):
    return [value for rows in matrices for row in rows for value in row if value is not None]


def test_the_page_has_every_section_and_asks_for_nothing(demo):
    html = as_html(make_report([demo]))
    for section in ("summary", "comparison", *METHODS, "settings"):
        assert f'id="{section}"' in html
    for section in SECTIONS:
        assert html.count(f'class="{section}"') == 4
    assert not re.search(r'(src|href)="(?!data:|#)', html)
    assert "http://" not in re.sub(r'xmlns(:xlink)?="[^"]+"', "", html)
    for name in ("accuracy-over-time", "forgetting", "along-the-stream", "communication"):
        assert html.count(f'data-name="{name}"') == 4
    assert html.count('data-name="memory-by-class"') == 3  # none has no memory
    assert html.count('data-name="uncertainty"') == 1


def test_the_heat_maps_say_what_result_json_says(demo):
    html = as_html(make_report([demo / "bi"]))
    result = result_of(demo / "bi")
    mean = series.mean_matrix(result["accuracy"])
    wanted = numbers_in([mean, result["global_accuracy"], *result["accuracy"]])
    assert values_of(html) == pytest.approx(wanted)


def cells(html, first):
    """The cells of the table row whose first cell has this text."""
    for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL):
        texts = [re.sub(r"<[^>]+>", "", c) for c in re.findall(r"<t[hd].*?</t[hd]>", row)]
        if texts and texts[0] == first:
            return texts
    raise AssertionError(first)


def test_the_tables_say_what_result_json_says(demo):
    html = as_html(make_report([demo]))
    for method in METHODS:
        result = result_of(demo / method)
        A, F = f"{result['A']:.2f}", f"{result['F']:.2f}"
        each = [metrics.last_accuracy(matrix) for matrix in result["accuracy"]]
        summary = cells(html, method)
        assert (summary[2], summary[4]) == (A, F)
        assert summary[3] == f"{A} ± {np.std(each):.2f}"
        assert summary[6] == f"{result['global_A']:.2f}"
        sent, received = (f"{result[k] / 1e6:,.1f} MB" for k in ("bytes_sent", "bytes_received"))
        assert cells(html, f"{method}, seed 0")[1:] == [
            "finished", A, F, str(result["rounds"]), sent, received, f"{result['seconds']:.1f} s",
        ]  # fmt: skip
    assert cells(html, "method") == ["method", "bi", "cbr", "er", "none"]
    assert cells(html, "clients") == ["clients", "3"]


def test_a_run_that_is_not_finished_is_not_in_the_summary(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "cbr", method="cbr", **TINY)
    made = make_settings({**TINY, "method": "er", "checkpoint_every": 1})
    for event in Run(made, blobs, tmp_path / "er"):
        if isinstance(event, Evaluated) and event.task == 2:
            break  # one client of two has ended its last task
    report = make_report([tmp_path])
    assert [line.settings["method"] for line in report.lines] == ["cbr"]
    assert "not finished" in cells(as_html(report), "er, seed 0")[1]


def test_runs_of_the_same_seed_are_told_apart(tmp_path, blobs):
    for name in ("one", "two"):
        ofcl.run(blobs, out=tmp_path / name, method="er", **TINY)
    html = as_html(make_report([tmp_path]))
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {"er-seed-0-one", "er-seed-0-two"} <= set(ids)


def test_a_damaged_run_shows_what_can_be_read(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", method="er", **TINY)
    for path in (tmp_path / "run" / "checkpoint").rglob("state.json"):
        path.write_text("{")
    html = as_html(make_report([tmp_path]))
    assert "every checkpoint in" in html
    assert 'data-name="along-the-stream"' in html


def test_a_run_of_an_older_version(tmp_path, blobs):
    """Without what later versions record; it is shown, and can be resumed."""
    made = make_settings({**TINY, "method": "bi", "checkpoint_every": 1})
    whole = ofcl.run(blobs, **{**TINY, "method": "bi"})
    for n, _ in enumerate(Run(made, blobs, tmp_path / "run")):
        if n == 40:
            break
    run = RunDirectory(tmp_path / "run")

    def older(state):
        for client in state["engine"]["clients"]:
            for key in ("told", "start", "released", "noise"):
                del client[key]
            del client["learner"]["memory"]["dropped"]

    rewrite(run.checkpoints, older)
    settings = (run.path / "settings.toml").read_text()
    (run.path / "settings.toml").write_text(
        re.sub(r"\[form\].*?\n\n", "", settings, flags=re.DOTALL)
    )
    assert "not finished" in as_html(make_report([tmp_path]))
    assert ofcl.resume(run.path, dataset=blobs).A == whole.A


@pytest.mark.parametrize("labels", [("$x^$", "_private"), ("猫", "$y_$")])
def test_any_name_of_a_class_can_be_drawn(tmp_path, labels):
    def readings(seed):
        draw = np.random.default_rng(seed)
        for n in range(60):
            yield draw.normal(3 * (n // 30), 1, size=4), labels[n // 30]

    ofcl.run(streams=[readings(0), readings(1)], out=tmp_path / "run", method="er", memory=10,
             burn_in=1)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        html = as_html(make_report([tmp_path]))
    legend = html[html.index('data-name="memory-by-class"') :].split("</figure>")[0]
    for label in labels:
        assert label in legend.split("<figcaption")[0]


def test_many_classes_are_drawn_with_the_others_together():
    held = series.Composition([1, 2], {c: [float(c), 1.0] for c in range(30)})
    some, others = series.largest(held, 18)
    assert len(some.counts) == 19
    assert others == 12
    assert np.sum(list(some.counts.values())) == np.sum(list(held.counts.values()))


def test_the_heights_of_bars_are_the_numbers():
    figure = figures.bars({"forgetting": [5.0, None, -2.0]}, x="task", y="points")
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights[0] == 5.0
    assert np.isnan(heights[1])
    assert heights[2] == -2.0
    figure = figures.histogram({"kept": [0.0, 0.5, 0.5], "dropped": [0.1]}, x="u")
    kept, dropped = np.split(np.array([p.get_height() for p in figure.axes[0].patches]), 2)
    assert kept.sum() == pytest.approx(100)
    assert dropped.sum() == pytest.approx(100)
    assert kept.max() == pytest.approx(200 / 3)


def test_a_page_of_many_clients_stays_small(tmp_path, blobs):
    many = {**TINY, "clients": 20, "tasks": 2, "method": "er", "batch_size": 2}
    ofcl.run(blobs, out=tmp_path / "run", **many)
    (experiment,) = read_experiments([tmp_path])
    memories = view_memories(experiment.runs[0], most=60)
    assert len(memories) == 20
    assert sum(len(memory.samples) for memory in memories) <= 600


def test_a_run_that_goes_on_shows_what_there_is(tmp_path, blobs):
    made = make_settings({**TINY, "method": "er", "checkpoint_every": 1})
    run = Run(made, blobs, tmp_path / "run")
    assert "just begun" in as_html(make_report([tmp_path]))
    for n, _ in enumerate(run):
        if n == 40:
            break
    html = as_html(make_report([tmp_path]))
    assert "not finished: task 2 of 3" in html
    assert 'data-name="along-the-stream"' in html
    assert values_of(html)


def test_a_stream_names_its_classes(tmp_path):
    def readings(seed):
        draw = np.random.default_rng(seed)
        for n in range(120):
            label = ("calm", "storm <b>")[n // 60]
            yield draw.normal(3 * (n // 60), 1, size=4), label

    ofcl.run(streams=[readings(0), readings(1)], out=tmp_path / "run", method="bi", memory=10,
             burn_in=1)  # fmt: skip
    html = as_html(make_report([tmp_path]))
    assert "storm &lt;b&gt;" in html
    assert "storm <b>" not in html


def test_seeds_are_one_experiment(tmp_path, blobs):
    for seed in (0, 1):
        ofcl.run(blobs, out=tmp_path / f"er{seed}", method="er", seed=seed, **TINY)
    report = make_report([tmp_path])
    assert [len(experiment.runs) for experiment in report.experiments] == [2]
    assert report.lines[0].A.std is not None
    assert str(report.lines[0].A_over_clients) in as_html(report)


def test_figures_and_tables_for_a_paper(tmp_path, demo):
    paths = save_figures(make_report([demo / "er", demo / "bi"]), tmp_path)
    names = {path.name for path in paths}
    assert {"comparison.md", "comparison.tex", "comparison.csv", "accuracy-per-task.pdf",
            "forgetting-against-er.svg", "bi-seed-0-uncertainty.pdf"} <= names  # fmt: skip
    for path in paths:
        start = path.read_bytes()[:5]
        assert start == {".pdf": b"%PDF-", ".svg": b"<?xml"}.get(path.suffix, start)
    line = (tmp_path / "comparison.csv").read_text().splitlines()
    assert line[0].startswith("dataset,method,memory,protocol,seeds,A_over_seeds,A_over_seeds_std")
    A = max(result_of(demo / name)["A"] for name in ("er", "bi"))
    assert float(line[1].split(",")[5]) == pytest.approx(A)
    assert r"\toprule" in (tmp_path / "comparison.tex").read_text()


def test_the_command(tmp_path, demo):
    ran = CliRunner().invoke(app, ["report", str(demo / "er"), "-o", str(tmp_path / "a" / "r.html"),
                                   "--figures", str(tmp_path / "f"), "--samples", "3"])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "a" / "r.html").read_text().count("<img") == 9
    assert (tmp_path / "f" / "comparison.tex").exists()
    with pytest.raises(OfclError, match="no such directory"):
        make_report([tmp_path / "nothing"])


# Following


@pytest.fixture
def followed(tmp_path, blobs):
    """A run that goes on when it is asked to, and the address of its report."""
    made = make_settings({**TINY, "method": "er", "checkpoint_every": 1})
    events = iter(Run(made, blobs, tmp_path / "run"))
    next(events)
    follower = Follower([tmp_path], lambda: as_html(make_report([tmp_path]), live=True))
    server = serve(follower)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield events, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_a_served_report_changes_with_the_run(followed):
    events, address = followed

    def ask(tag=None):
        headers = {"If-None-Match": tag} if tag else {}
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request) as answer:
            return answer.headers["ETag"], answer.read().decode()

    tag, page = ask()
    assert "not finished: task 1 of 3" in page
    with pytest.raises(urllib.error.HTTPError, match="304"):
        ask(tag)
    for _ in events:
        pass
    later, page = ask(tag)
    assert later != tag
    assert "not finished" not in page
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address + "settings.toml")
    # A name of somebody else's that was made to lead here.
    evil = urllib.request.Request(address, headers={"Host": "evil.example.com"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(evil)


def test_a_served_report_says_what_is_wrong(followed, tmp_path):
    events, address = followed
    for _ in events:
        pass
    (tmp_path / "run" / "result.json").write_text("{")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(address)
    assert error.value.code == 503
    assert "result.json' cannot be read" in error.value.read().decode()


# In a browser


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                 None)  # fmt: skip
    if found is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def opened(browser):
    """Opens addresses; gives the page, and what it said and asked for."""
    contexts = []

    def open_(address, **how):
        context = browser.new_context(**how)
        contexts.append(context)
        page = context.new_page()
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page, said, [url for url in asked if not url.startswith("data:")]

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page_of_the_demo(demo, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(as_html(make_report([demo], samples=10)), encoding="utf-8")
    return path.as_uri()


@pytest.mark.browser
def test_in_a_browser_everything_is_there(opened, page_of_the_demo, demo):
    page, said, asked = opened(page_of_the_demo)
    assert (said, asked) == ([], [page_of_the_demo])
    for section in ("summary", "comparison", *METHODS, "settings"):
        assert page.locator(f"section#{section} > h2").is_visible()
    for method in METHODS:
        run = page.locator(f"section#{method}")
        for section in SECTIONS:
            assert run.locator(f"section.{section} > h4").is_visible()
        result = result_of(demo / method)
        cells = run.locator("table.heat td[data-value]").evaluate_all(
            "cells => cells.map(cell => [Number(cell.dataset.value), cell.textContent])"
        )
        mean = series.mean_matrix(result["accuracy"])
        wanted = numbers_in([mean, result["global_accuracy"], *result["accuracy"]])
        assert [value for value, _ in cells] == pytest.approx(wanted)
        assert [text for _, text in cells] == [f"{value:.1f}" for value in wanted]
        boxes = [figure.bounding_box() for figure in run.locator("figure svg").all()]
        assert all(box["width"] > 100 for box in boxes)


@pytest.mark.browser
def test_in_a_browser_the_pictures_are_the_memorys(opened, page_of_the_demo, demo):
    page, _, _ = opened(page_of_the_demo)
    for method in METHODS[1:]:
        for client in range(3):
            pixels = pixels_of(demo / method, client)
            shown = page.locator(
                f'section#{method} .samples[data-client="{client}"] li'
            ).evaluate_all(
                """items => items.map(item => {
                    const image = item.querySelector("img");
                    const canvas = document.createElement("canvas");
                    canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
                    const draw = canvas.getContext("2d");
                    draw.drawImage(image, 0, 0);
                    const seen = draw.getImageData(0, 0, canvas.width, canvas.height).data;
                    const red = Array.from(seen).filter((_, i) => i % 4 == 0);
                    return [Number(item.dataset.number), red];
                })"""
            )
            assert len(shown) == 10
            for number, seen in shown:
                assert np.array_equal(np.array(seen).reshape(28, 28), pixels[number])


WORST_CONTRAST = """() => {
    const luminance = (c) => c.map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const canvas = document.createElement("canvas").getContext("2d");
    const rgb = (colour) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return Array.from(canvas.getImageData(0, 0, 1, 1).data);
    };
    const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const colour = rgb(getComputedStyle(e).backgroundColor);
            if (colour[3] > 0) return colour.slice(0, 3);
        }
        return [255, 255, 255];
    };
    let worst = [99, ""];
    const texts = "h1,h2,h3,h4,p,a,td,th,caption,figcaption,span,summary";
    for (const e of document.querySelectorAll(texts)) {
        if (!e.textContent.trim() || e.classList.contains("skip")) continue;
        const a = luminance(rgb(getComputedStyle(e).color).slice(0, 3)), b = luminance(behind(e));
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < worst[0]) worst = [contrast, e.outerHTML.slice(0, 90)];
    }
    return worst;
}"""
"""Every text against what is behind it, by the rule of WCAG, whose AA is 4.5."""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_in_a_browser_it_fits_and_can_be_read(opened, page_of_the_demo, width, scheme):
    page, _, _ = opened(page_of_the_demo, viewport={"width": width, "height": 800},
                        color_scheme=scheme)  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth") == width
    worst = page.evaluate(WORST_CONTRAST)
    assert worst[0] >= 4.5, worst
    text = page.locator("figure svg text").first.evaluate("e => getComputedStyle(e).fill")
    assert text == page.evaluate("getComputedStyle(document.body).color")


@pytest.mark.browser
def test_in_a_browser_the_keyboard_and_a_screen_reader_get_everywhere(opened, page_of_the_demo):
    page, _, _ = opened(page_of_the_demo)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    each = page.locator("section#bi details.clients")
    assert not each.locator("table").first.is_visible()
    each.locator("summary").focus()
    page.keyboard.press("Enter")
    assert each.locator("table").first.is_visible()
    assert page.locator("figure [role=img]:not([aria-label])").count() == 0
    assert page.locator("img:not([alt])").count() == 0
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator(".wide:not([tabindex])").count() == 0
    levels = page.locator("h1,h2,h3,h4").evaluate_all("all => all.map(h => Number(h.tagName[1]))")
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


@pytest.mark.browser
def test_in_a_browser_what_is_closed_is_printed(opened, page_of_the_demo):
    page, _, _ = opened(page_of_the_demo)
    closed = page.locator("section#bi details.clients table").first
    assert closed.evaluate("e => e.checkVisibility({ contentVisibilityAuto: true })") is False
    page.emulate_media(media="print")
    assert closed.bounding_box()["height"] > 50
    assert page.locator("nav").is_hidden()


@pytest.mark.browser
def test_in_a_browser_a_followed_run_brings_its_news(opened, followed):
    events, address = followed
    page, said, _ = opened(address)
    assert "not finished" in page.locator("#summary").inner_text()
    page.locator("#settings details summary").click()
    page.locator("#settings details summary").focus()
    for _ in events:
        pass
    page.wait_for_function("!document.querySelector('#summary').innerText.includes('not finished')")
    assert page.locator("#settings details[open]").count() == 1  # as it was left
    assert page.evaluate("document.activeElement.textContent") == "Settings that all have"
    assert said == []
