"""The bundles that runs leave: at the end of each task and of the run, and how they are found."""

import json
from dataclasses import replace

import pytest
import torch

import ofcl
from ofcl import Run, make_settings
from ofcl.bundle.bundle_files import read_bundle
from ofcl.data.files.embedders import Embedder
from ofcl.data.sample_forms import TextForm
from ofcl.errors import OfclError
from ofcl.events import Evaluated, Round
from tests.conftest import TINY

QUICK = {**TINY, "burn_in": 0, "q": 1, "method": "er"}


def readings(seed, tasks):
    draw = torch.Generator().manual_seed(seed)
    for task in range(tasks):
        for n in range(60):
            label = f"{task}-{n % 2}"
            yield torch.randn(4, generator=draw) + 3 * (n % 2) + 6 * task, label, task


@pytest.mark.parametrize("protocol", ["sound", "strong", "published"])
def test_a_run_leaves_a_bundle_of_every_task(tmp_path, blobs, protocol):
    result = ofcl.run(blobs, out=tmp_path / "run", **{**QUICK, "protocol": protocol})
    tasks = len(result.global_accuracy)
    folders = sorted(p.name for p in (tmp_path / "run" / "models").iterdir())
    assert folders == [f"task-{n + 1}" for n in range(tasks)]
    of_task = read_bundle(tmp_path / "run" / "models" / "task-1").description.learned
    final = read_bundle(tmp_path / "run" / "model").description.learned
    assert (of_task.finished, final.finished) == (False, True)
    assert final.metrics["global_A"] == pytest.approx(result.global_A)
    assert len(final.tasks) == tasks


def test_the_model_predicts_as_the_server_was_tested(tmp_path, blobs):
    """The right predictions of each class are exactly those that the clients have counted."""
    run = Run(make_settings({**QUICK, "protocol": "strong"}), blobs, tmp_path / "run")
    last = {e.client: e for e in run if isinstance(e, Evaluated)}
    counted = {}
    for event in last.values():
        for c, right, samples in (row for task in event.global_test for row in task):
            before = counted.get(c, (0, 0))
            counted[c] = before[0] + right, before[1] + samples
    model = ofcl.load(tmp_path / "run")
    predicted = model.predict(blobs.x_test)
    for c, (right, samples) in counted.items():
        of_class = blobs.y_test == c
        assert samples == int(of_class.sum())
        assert right == (predicted[of_class.numpy()] == blobs.labels[c]).sum()


def test_validation_curves_are_in_the_final_bundle(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", **{**QUICK, "validation": 0.2})
    curves = read_bundle(tmp_path / "run" / "model").description.abstention
    assert set(curves) == {"probability", "uncertainty"}
    assert curves["probability"].samples == curves["uncertainty"].samples > 0
    assert curves["probability"].errors[-1] == curves["uncertainty"].errors[-1]
    assert read_bundle(tmp_path / "run" / "models" / "task-1").description.abstention == {}


def test_of_a_stopped_run_the_last_task_is_opened(tmp_path, blobs):
    run = Run(make_settings({**QUICK, "protocol": "strong"}), blobs, tmp_path / "run")
    for event in run:
        if isinstance(event, Evaluated) and event.task == 1:
            break
    assert not (tmp_path / "run" / "model").exists()
    opened = ofcl.load(tmp_path / "run").description.learned
    assert len(opened.tasks) in (1, 2)
    assert not opened.finished


def test_a_run_without_rounds_has_no_model(tmp_path, blobs):
    with pytest.warns(UserWarning, match="no round"):
        ofcl.run(blobs, out=tmp_path / "run", **{**QUICK, "burn_in": 1000, "protocol": "sound"})
    assert not (tmp_path / "run" / "model").exists()
    with pytest.raises(OfclError, match="no round was held"):
        ofcl.load(tmp_path / "run")


def test_streams_keep_the_bundles_of_two_tasks(tmp_path):
    streams = [readings(seed, tasks=4) for seed in (0, 1)]
    ofcl.run(streams=streams, out=tmp_path / "run", memory=20, protocol="strong")
    names = sorted(p.name for p in (tmp_path / "run" / "models").glob("task-*"))
    assert names == ["task-3", "task-4"]
    model = ofcl.load(tmp_path / "run")
    assert set(model.labels) == {f"{task}-{n}" for task in range(4) for n in range(2)}
    assert model.predict([6 * 3 + 3.0] * 4) in model.labels


def test_a_stream_without_tasks_has_a_model_while_it_goes_on(tmp_path):
    streams = [((x, y) for x, y, _ in readings(seed, tasks=2)) for seed in (0, 1)]
    settings = make_settings({"memory": 20, "clients": 2, "checkpoint_every": 1, "q": 1})
    run = Run(settings, out=tmp_path / "run", streams=streams)
    for event in run:
        if isinstance(event, Round) and event.round == 4:
            break
    assert sorted(p.name for p in (tmp_path / "run" / "models").iterdir()) == ["round-2", "round-3"]
    assert ofcl.load(tmp_path / "run").description.learned.rounds == 3


def test_a_run_without_a_directory_gives_its_model(blobs):
    run = Run(make_settings(QUICK), blobs)
    with pytest.raises(OfclError, match="no round yet"):
        run.model()
    for _ in run:
        pass
    assert (
        run.model().predict(blobs.x_test) == [blobs.labels[c] for c in blobs.y_test]
    ).mean() > 0.3


def test_nothing_in_a_bundle_names_files_of_the_run(tmp_path, blobs):
    ofcl.run(blobs, out=tmp_path / "run", data_root=str(tmp_path / "secret"), **QUICK)
    text = (tmp_path / "run" / "model" / "model.json").read_text()
    assert str(tmp_path) not in text
    assert "data_root" not in json.loads(text)["learned"]["settings"]


def test_an_embedder_in_a_folder_is_named_without_its_path(tmp_path, blobs):
    embedder = Embedder(str(tmp_path / "our-embedder"), version="v7")
    data = replace(blobs, form=TextForm(embedder, blobs.shape[0]))
    ofcl.run(data, out=tmp_path / "run", **QUICK)
    text = (tmp_path / "run" / "model" / "model.json").read_text()
    assert json.loads(text)["samples"]["embedder"]["model"] == "our-embedder"
    assert str(tmp_path) not in text + (tmp_path / "run" / "model" / "README.md").read_text()
