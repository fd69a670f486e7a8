"""`ofcl evaluate` gives exactly what the server has measured, for every kind of data."""

import json
import shutil

import numpy as np
import pytest

import ofcl
from ofcl import OfclError, Reading
from ofcl.assembly.dealing import Loader
from ofcl.inference.evaluating import evaluate_data, evaluate_own
from ofcl.inference.labelled_data import read_labelled
from ofcl.inference.own_test import own_test, run_of
from tests.support.trained_runs import KINDS, image_folder, save_images, server_counts, squares


@pytest.fixture(scope="module", params=KINDS)
def trained(request, tmp_path_factory):
    """A folder with a run, its data, and its test samples apart."""
    folder = tmp_path_factory.mktemp("run")
    return folder, *KINDS[request.param](folder)


def agrees(found, run):
    counts, result = server_counts(run)
    for figures in found.classes:
        right, samples = counts[figures.label]
        assert samples % figures.samples == 0  # clients of streams share their test samples
        assert figures.right * samples == right * figures.samples
    assert {figures.label for figures in found.classes} == counts.keys()
    assert found.tasks == result["global_accuracy"][-1]
    assert found.mean_of_tasks == result["global_A"]


def test_on_the_runs_own_test_samples(trained):
    folder, *_ = trained
    model = ofcl.load(folder / "run")
    test = own_test(run_of(folder / "run"), model, Loader(), print)
    found = evaluate_own(model, test, measure=False)
    agrees(found, folder / "run")
    # Something is to be got right and wrong, so that the counts could differ.
    assert 0 < found.accuracy <= 100


def test_on_data_with_a_test_part(trained):
    folder, data, _ = trained
    if data is None:
        pytest.skip("these data have no test part")
    model = ofcl.load(folder / "run")
    how = Reading(root=folder / "data")
    found = evaluate_data(model, read_labelled(str(data), model.description.samples, how))
    agrees(found, folder / "run")


def test_a_copied_bundle_with_the_run_and_its_data_gone(trained, tmp_path):
    folder, _, apart = trained
    if apart is None:
        pytest.skip("these data are read by name")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copytree(folder / "run" / "model", alone / "model")
    where = alone / apart.name
    shutil.copytree(apart, where) if apart.is_dir() else shutil.copy(apart, where)
    hidden = folder.rename(folder.with_name("hidden"))
    try:
        assert run_of(alone / "model") is None
        model = ofcl.load(alone / "model")
        labelled = read_labelled(str(where), model.description.samples, Reading(root=alone))
        found = evaluate_data(model, labelled, measure=False)
    finally:
        hidden.rename(folder)
    agrees(found, folder / "run")


@pytest.fixture(scope="module")
def run_of_a_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    image_folder(folder)
    return folder


def test_the_model_of_an_earlier_task_is_tested_on_the_tasks_up_to_it(run_of_a_folder):
    path = run_of_a_folder / "run" / "models" / "task-1"
    model = ofcl.load(path)
    found = evaluate_own(model, own_test(run_of(path), model, Loader(), print), measure=False)
    _, result = server_counts(run_of_a_folder / "run")
    assert found.tasks == result["global_accuracy"][0][:1]


def test_other_data_than_those_of_the_run_are_refused(run_of_a_folder, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(run_of_a_folder / "run", folder / "run")
    settings = (folder / "run" / "settings.toml").read_text()
    data = run_of_a_folder / "pictures"
    shutil.copytree(data, folder / "pictures")
    (folder / "run" / "settings.toml").write_text(
        settings.replace(str(data), str(folder / "pictures"))
    )
    next((folder / "pictures" / "test").rglob("*.png")).unlink()
    model = ofcl.load(folder / "run")
    with pytest.raises(OfclError, match="the data are not those"):
        own_test(run_of(folder / "run"), model, Loader(), print)
    shutil.rmtree(folder / "pictures")
    with pytest.raises(OfclError, match="ofcl evaluate MODEL DATA"):
        own_test(run_of(folder / "run"), model, Loader(), print)


def test_labels_that_the_model_does_not_know_are_counted_and_named(run_of_a_folder, tmp_path):
    x, y = squares(12, 3)
    save_images(tmp_path / "new", x, y)
    (tmp_path / "new" / "class 3").rename(tmp_path / "new" / "zebra")
    model = ofcl.load(run_of_a_folder / "run")
    labelled = read_labelled(str(tmp_path / "new"), model.description.samples, Reading())
    found = evaluate_data(model, labelled)
    assert (found.unknown, found.samples) == ({"zebra": 3}, 9)
    assert [c.label for c in found.classes] == ["class 0", "class 1", "class 2"]
    assert json.loads(json.dumps(found.to_json()))["classes"][0]["samples"] == 3


@pytest.mark.parametrize(("part", "samples"), [(None, 41), ("test", 41), ("train", 80),
                                               ("all", 121)])  # fmt: skip
def test_a_part_can_be_chosen(run_of_a_folder, part, samples):
    model = ofcl.load(run_of_a_folder / "run")
    data = str(run_of_a_folder / "pictures")
    assert len(read_labelled(data, model.description.samples, Reading(), part).labels) == samples


def test_data_that_do_not_fit_say_so(run_of_a_folder, tmp_path):
    model = ofcl.load(run_of_a_folder / "run")
    form = model.description.samples
    with pytest.raises(OfclError, match="no file, folder or dataset"):
        read_labelled(str(tmp_path / "nothing"), form, Reading())
    np.savez(tmp_path / "other.npz", x=np.zeros((4, 5, 5)), y=np.arange(4))
    with pytest.raises(OfclError, match="1 × 5 × 5 are given; this model takes grey images"):
        read_labelled(str(tmp_path / "other.npz"), form, Reading())
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n2,y\n")
    with pytest.raises(OfclError, match="has rows; this model takes grey images of 8 × 8"):
        read_labelled(str(tmp_path / "rows.csv"), form, Reading())
    save_images(tmp_path / "few", *squares(4, 0))
    with pytest.raises(OfclError, match="has no test part; it has train"):
        read_labelled(str(tmp_path / "few"), form, Reading(), "test")
    (tmp_path / "few" / "class 0" / "000.png").write_bytes(b"no image")
    labelled = read_labelled(str(tmp_path / "few"), form, Reading())
    with pytest.raises(OfclError, match=r"000.png' cannot be read as an image.*--on-bad skip"):
        evaluate_data(model, labelled)
    assert evaluate_data(model, labelled, on_bad="skip").left_out == 1
