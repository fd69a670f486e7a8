"""Runs over images that a pretrained network embeds: datasets, streams, going on, resuming."""

import json
import re
from importlib.util import find_spec

import numpy as np
import pytest

import ofcl
from ofcl import OfclError, Run, make_settings
from ofcl.assembly.dealing import Loader
from ofcl.data.files import embeddings
from ofcl.data.live import watched_folder
from ofcl.storage.run_directory import RunDirectory
from tests.assembly.test_going_on import assert_equal_runs, finish
from tests.support.embedded_images import SMALL, pictures, weights_file, write_arrays, write_files

pytestmark = [
    pytest.mark.skipif(find_spec("timm") is None, reason="needs timm"),
    pytest.mark.xdist_group("timm"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data, weights and the cache of vectors, and the settings that name them."""
    folder = tmp_path_factory.mktemp("embedded")
    name = weights_file(folder / "net.safetensors")
    write_arrays(folder / "data.npz")
    return folder, {**SMALL, "embedder": name, "data_root": str(folder), "clients": 2,
                    "dataset": str(folder / "data.npz")}  # fmt: skip


def streamed(values):
    """The settings without those of datasets."""
    return {n: v for n, v in values.items() if n not in ("dataset", "tasks", "clients")}


def items(count, seed, tasks=(0, 1)):
    """Labelled images of a stream: classes 0 and 1, then all."""
    x, y = pictures(count, seed)
    first = [(x[n], str(y[n]), "0") for n in range(count) if y[n] < 2]
    second = [(x[n], str(y[n]), "1") for n in range(count)]
    return [item for task in tasks for item in (first, second)[task]]


def test_vectors_of_a_dataset_are_standardised_by_its_train_part(place):
    _, values = place
    dataset = Loader()(make_settings(values))
    x = dataset.x_train.double()
    assert x.mean(dim=0).abs().max() < 1e-6
    lengths = x.square().sum(dim=1).mean()
    assert 0.5 < lengths <= 1 + 1e-6  # numbers that hardly vary count less
    plain = Loader()(make_settings({**values, "features": "unit"}))
    np.testing.assert_allclose(plain.x_test.norm(dim=1), 1, atol=1e-5)
    form = dataset.sample_form
    again = (plain.x_test.numpy() - form.feature_mean) / form.feature_scale
    np.testing.assert_allclose(dataset.x_test, again, atol=1e-5)
    assert plain.sample_form.feature_mean == ()


def test_the_model_takes_images_and_the_second_start_embeds_nothing(place, tmp_path, monkeypatch):
    folder, values = place
    ofcl.run(**values, out=tmp_path / "a")
    monkeypatch.setattr(embeddings, "encode_images", None)
    ofcl.run(**values, out=tmp_path / "b")
    assert_equal_runs(tmp_path / "a", tmp_path / "b")
    monkeypatch.undo()
    x, y = pictures(72, 0)
    found = ofcl.load(tmp_path / "a", embedder=values["embedder"]).predict(x[48:])
    prepared = Loader()(make_settings(values)).x_test
    direct = Run.resume(tmp_path / "a", tell=lambda _: None).model().answer_prepared(prepared)
    assert found.tolist() == direct.classes.astype(str).tolist()
    assert (found == y[48:].astype(str)).mean() > 0.5


def test_runs_and_bundles_with_vectors_of_length_1_are_as_they_were(place, tmp_path):
    """Earlier versions wrote neither the setting nor the scaling."""
    _, values = place
    old = {**values, "features": "unit", "checkpoint_every": 2}
    ofcl.run(**old, out=tmp_path / "whole")
    run = Run(make_settings(old), out=tmp_path / "stopped")
    for n, _ in enumerate(run):
        if n == 12:
            break
    run.close()
    del run
    settings = tmp_path / "stopped" / "settings.toml"
    settings.write_text(re.sub(r"features = .*\n", "", settings.read_text()))
    ofcl.resume(tmp_path / "stopped")
    assert_equal_runs(tmp_path / "whole", tmp_path / "stopped")

    x, _ = pictures(20, 3)
    before = ofcl.load(tmp_path / "whole", embedder=values["embedder"]).predict_proba(x)
    path = tmp_path / "whole" / "model" / "model.json"
    described = json.loads(path.read_text())
    for name in ("feature_mean", "feature_scale"):
        assert described["samples"].pop(name) == []
    del described["learned"]["settings"]["features"]
    path.write_text(json.dumps(described))
    model = ofcl.load(tmp_path / "whole", embedder=values["embedder"])
    np.testing.assert_array_equal(model.predict_proba(x), before)
    start = ofcl.run(dataset=values["dataset"], start=tmp_path / "whole" / "model",
                     embedder=values["embedder"], out=tmp_path / "on")  # fmt: skip
    assert start.rounds
    assert RunDirectory(tmp_path / "on").settings().features == "unit"


def test_iterators_of_images_are_embedded_and_go_on_as_one_stream(place, tmp_path):
    _, values = place
    made = make_settings(streamed({**values, "hidden": 8}))
    for name, tasks in (("whole", (0, 1)), ("today", (0,))):
        streams = [items(40, seed, tasks) for seed in (1, 2)]
        finish(Run(made, out=tmp_path / name, streams=streams))
    streams = [items(40, seed, (1,)) for seed in (1, 2)]
    ofcl.run(streams=streams, start=tmp_path / "today", out=tmp_path / "tomorrow")
    assert_equal_runs(tmp_path / "whole", tmp_path / "tomorrow")
    form = ofcl.load(tmp_path / "tomorrow").description.samples
    assert len(form.feature_mean) == len(form.feature_scale) == form.embedder.length
    with pytest.raises(OfclError, match="features = 'unit', but .* features = 'standardised'"):
        ofcl.run(streams=streams, start=tmp_path / "today", features="unit")


def test_all_clients_of_streams_have_the_scale_of_all_first_images(place):
    _, values = place
    streams = [[(x, str(y)) for x, y in zip(*pictures(n, seed), strict=True)]
               for n, seed in ((24, 1), (6, 2))]  # fmt: skip
    run = Run(make_settings(streamed(values)), streams=streams)
    one, other = (client.stream.form for client in run.clients)
    assert one.agreement is other.agreement
    first = [np.stack([x for x, _ in stream[:10]]).transpose(0, 3, 1, 2) for stream in streams]
    vectors = np.concatenate([one.vectors(images) for images in first])
    assert one.agreement.count == len(vectors) == 16
    np.testing.assert_allclose(one.standardisation.mean, vectors.mean(axis=0), atol=1e-7)
    varying = vectors.std(axis=0) > one.standardisation.scale.min() * 1.01
    assert varying.any()
    np.testing.assert_allclose(
        one.standardisation.scale[varying], vectors.std(axis=0)[varying], rtol=1e-4
    )
    finish(run)


def test_a_watched_folder_of_images_is_resumed_and_its_model_answers_alike(
    place, tmp_path, monkeypatch
):
    monkeypatch.setattr(watched_folder, "SETTLED", 0.0)
    monkeypatch.setattr(watched_folder, "LOOK", 0.0)
    _, values = place
    write_files(tmp_path / "ward", 40, 1)
    test = write_files(tmp_path / "test", 20, 2)
    made = make_settings({**streamed(values), "streams": [f"watch:{tmp_path / 'ward'}"],
                          "idle": 0.3, "test": str(test), "checkpoint_every": 1})  # fmt: skip
    finish(Run(made, out=tmp_path / "whole"))
    run = Run(made, out=tmp_path / "killed")
    for n, _ in enumerate(run):
        if n == 4:
            break
    run.close()
    del run
    ofcl.resume(tmp_path / "killed")
    assert_equal_runs(tmp_path / "whole", tmp_path / "killed")
    model = ofcl.load(tmp_path / "killed", embedder=values["embedder"])
    files = sorted(test.rglob("*.png"))
    right = model.predict(files) == np.array([path.parent.name for path in files])
    assert 100 * right.mean() == pytest.approx(RunDirectory(tmp_path / "killed").result().global_A)
