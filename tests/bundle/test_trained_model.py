"""A model that was learned: labels, probabilities, uncertainty, features."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ofcl
from ofcl import OfclError
from ofcl.bundle.bundle_files import Bundle, write_folder, write_zip
from ofcl.bundle.open_bundle import open_bundle
from ofcl.data.files.embedders import Embedder
from ofcl.data.sample_forms import TextForm
from ofcl.uncertainty.scores import bregman_information


@pytest.fixture(scope="module")
def model(run_of_images):
    return ofcl.load(run_of_images)


def test_it_predicts_as_the_plain_network_does(model, images):
    x = images.x_test[:30]
    with torch.no_grad():
        logits = model.module(images.prepare(x))
    wanted = logits.softmax(1).numpy()
    assert np.allclose(model.predict_proba(x), wanted, atol=1e-6)
    assert model.predict(x).tolist() == [model.labels[c] for c in wanted.argmax(1)]
    assert model.predict(x[3]) == model.predict(x)[3]
    assert model.predict_proba(x[3]).shape == (len(model.labels),)
    assert np.allclose(model.embed(x), model.module.features(images.prepare(x)).detach(), atol=1e-6)


def test_uncertainty_is_bregman_information_over_noisy_copies(model, images):
    x, how = images.x_test[:20], model.description.uncertainty
    assert how.perturbations == ()
    draws = torch.randn(how.noise_copies, 1, *x.shape[1:],
                        generator=ofcl.seeds.generator(0, "uncertainty"))  # fmt: skip
    with torch.no_grad():
        copies = images.prepare(x) + how.noise_std * draws
        logits = torch.stack([model.module(copy) for copy in copies])
    assert np.allclose(model.uncertainty(x), bregman_information(logits), atol=1e-5)


def test_the_uncertainty_of_a_sample_does_not_depend_on_the_others(model, images):
    x = images.x_test[:20]
    together = model.uncertainty(x)
    assert model.uncertainty(x[7]) == pytest.approx(together[7], abs=1e-6)
    assert np.array_equal(model.uncertainty(x), together)
    assert model.answer(x, measure=False).uncertainty.shape == (0,)


def test_a_bundle_of_the_papers_perturbations_is_read_too(model, images):
    described = replace(
        model.description,
        uncertainty=replace(model.description.uncertainty, perturbations=("hflip", "rotate-10")),
    )
    other = open_bundle(Bundle(described, model.module.state_dict()))
    assert (other.uncertainty(images.x_test[:5]) >= 0).all()


def test_no_samples_have_no_answers(model):
    assert model.predict([]).shape == (0,)
    assert model.predict_proba([]).shape == (0, len(model.labels))


def test_a_folder_and_a_zip_file_are_the_same_model(bundle, blobs, tmp_path):
    write_folder(bundle, tmp_path / "folder")
    write_zip(bundle, tmp_path / "one.zip")
    answers = [ofcl.load(tmp_path / n).predict_proba(blobs.x_test) for n in ("folder", "one.zip")]
    assert np.array_equal(*answers)


def test_an_embedder_that_is_not_well_known_has_to_be_named(bundle):
    form = TextForm(Embedder("/somewhere/mine", version="1"), bundle.description.samples.length)
    described = replace(bundle.description, samples=form)
    model = open_bundle(bundle._replace(description=described))
    with pytest.raises(OfclError, match="embedder '/somewhere/mine'.*--embedder"):
        model.predict("a text")


def test_a_run_without_a_model_says_so(tmp_path):
    with pytest.raises(OfclError, match="no file or folder"):
        ofcl.load(tmp_path / "nothing")
    with pytest.raises(OfclError, match="is no model; expected a run directory"):
        ofcl.load(tmp_path)
