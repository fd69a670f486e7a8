"""Samples as people give them to a model."""

import numpy as np
import pytest

import ofcl
from ofcl.errors import OfclError


def test_arrays_of_single_images_in_a_list(run_of_images, images):
    model, x = ofcl.load(run_of_images), images.x_test[:3].numpy()
    expected = model.predict_proba(x)
    assert np.allclose(model.predict_proba(list(x)), expected, atol=1e-6)
    assert np.allclose(model.predict_proba([x[:1], x[1:2], x[2:]]), expected, atol=1e-6)


def test_an_array_of_several_images_in_a_list_is_not_cut_to_its_first(run_of_images, images):
    x = images.x_test[:3].numpy()
    with pytest.raises(OfclError, match="sample 1: an array of 2 images; expected one"):
        ofcl.load(run_of_images).predict([x[:1], x[1:]])
